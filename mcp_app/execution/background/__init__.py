"""Background calls outside their worker: accept, follow, cancel, recover."""
