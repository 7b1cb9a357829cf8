"""One call in one process: the code it runs, the context of that code, and the reply."""
