"""What a stage of training may change."""
