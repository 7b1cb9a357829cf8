"""GET /metrics: the metrics for Prometheus, their access rule and their text format."""
