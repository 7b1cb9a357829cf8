"""Bounds on time in tests: the promise's own, plus what a busy machine adds. Exact times are benchmarks."""

from __future__ import annotations

# What a machine with ten processes waiting for each core adds to any wait, in seconds.
SLACK = 8.0
