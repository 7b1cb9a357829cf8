"""What people keep for themselves: searches of the log."""
