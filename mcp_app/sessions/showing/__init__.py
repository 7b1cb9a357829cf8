"""What lists and pages show of a logged message."""
