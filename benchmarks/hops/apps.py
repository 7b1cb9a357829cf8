"""Django app of the tools of the hop table."""

from __future__ import annotations

from django.apps import AppConfig


class HopsConfig(AppConfig):
    """Tools that each take one path."""

    name = "benchmarks.hops"
    label = "benchmark_hops"
    verbose_name = "Hop table"
