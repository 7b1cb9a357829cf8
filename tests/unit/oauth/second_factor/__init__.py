"""The second factor at every login page."""
