"""One file per method family: each handler takes a request context and params, and returns a result."""
