"""The message log and its pages with millions of messages."""
