"""The environment in which threads run code: the caller's context, persistent connections, and scheduling."""
