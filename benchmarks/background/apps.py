"""Django app of the benchmark's background tools."""

from __future__ import annotations

from django.apps import AppConfig


class BackgroundBenchmarkConfig(AppConfig):
    """Tools that return when they started, reported or stopped, on the monotonic clock of all processes."""

    name = "benchmarks.background"
    label = "benchmark_background"
    verbose_name = "Benchmark of background calls"
