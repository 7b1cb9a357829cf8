"""Names the benchmark's tools to Django."""

from __future__ import annotations

from django.apps import AppConfig


class BenchmarkCatalogueConfig(AppConfig):
    """One echo and as many tools more as ``BENCH_TOOLS`` says."""

    name = "benchmarks.catalogue"
    label = "benchmark_catalogue"
    verbose_name = "Benchmark catalogue"
