"""How the message log and its pages fare with millions of messages."""
