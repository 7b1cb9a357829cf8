"""A call in one process: its code, its context and its reply."""
