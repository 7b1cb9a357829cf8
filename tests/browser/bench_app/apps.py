"""The Django app of the bench tests; its entries are in mcp.py."""

from __future__ import annotations

from django.apps import AppConfig


class BenchAppConfig(AppConfig):
    """The entries of the bench tests."""

    name = "tests.browser.bench_app"
    label = "bench_app"
    verbose_name = "Bench tests"
