"""Method handlers, one module per family. Each takes a request context and params, and returns a result."""
