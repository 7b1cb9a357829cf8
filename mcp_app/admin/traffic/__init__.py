"""Admin pages of sessions and of the message log."""
