"""Background calls outside their worker: accepted, followed, cancelled, recovered."""
