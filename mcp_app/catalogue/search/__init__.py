"""Search for entries by the words of a task, as a model writes it."""
