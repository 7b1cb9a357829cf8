"""Views of the message log and of its errors."""
