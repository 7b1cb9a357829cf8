"""The filters of the message log."""
