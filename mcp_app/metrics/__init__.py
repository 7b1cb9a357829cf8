"""Metrics: what processes count and report, how it is read, and how it is worded for Prometheus."""
