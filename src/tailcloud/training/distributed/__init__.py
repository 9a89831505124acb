"""A run that several processes share."""
