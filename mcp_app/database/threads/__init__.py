"""The environment of threads: the caller's context, persistent database connections, scheduling."""
