"""Metrics: counts and reports of processes, the collection of all values, and the Prometheus format."""
