"""Django app of the benchmark's tools."""

from __future__ import annotations

from django.apps import AppConfig


class BenchmarkCatalogueConfig(AppConfig):
    """One echo and the fillers that ``BENCH_TOOLS`` requests."""

    name = "benchmarks.catalogue"
    label = "benchmark_catalogue"
    verbose_name = "Benchmark catalogue"
