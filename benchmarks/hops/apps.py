"""Names the tools of the hop table to Django."""

from __future__ import annotations

from django.apps import AppConfig


class HopsConfig(AppConfig):
    """Tools of which each takes one path."""

    name = "benchmarks.hops"
    label = "benchmark_hops"
    verbose_name = "Hop table"
