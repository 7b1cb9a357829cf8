"""Names the background tools of the benchmark to Django."""

from __future__ import annotations

from django.apps import AppConfig


class BackgroundBenchmarkConfig(AppConfig):
    """Tools that tell when they started, reported or stopped, on the clock all processes share."""

    name = "benchmarks.background"
    label = "benchmark_background"
    verbose_name = "Benchmark of background calls"
