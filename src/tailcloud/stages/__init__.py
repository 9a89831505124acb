"""What a stage of training is: which images it shows, what it minimises, and which weights may move."""
