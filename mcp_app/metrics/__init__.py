"""Metrics: counts and reports of processes, their readings, and the Prometheus format."""
