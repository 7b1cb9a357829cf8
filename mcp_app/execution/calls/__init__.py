"""One call in one process: its code, the context the code sees, and the reply it answers on."""
