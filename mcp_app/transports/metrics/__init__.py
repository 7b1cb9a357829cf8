"""GET /metrics: what Prometheus reads, who may read it, and the words it is told in."""
