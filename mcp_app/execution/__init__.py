"""Running calls: the reply, the context for tools, cancellation and deadlines."""
