"""Tests of /metrics on real processes."""
