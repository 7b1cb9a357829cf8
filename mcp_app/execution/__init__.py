"""Running calls: the reply they answer on, the context tools see, cancellation and deadlines."""
