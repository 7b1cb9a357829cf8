"""The Django app of the querying tools."""

from __future__ import annotations

from django.apps import AppConfig


class QueryingConfig(AppConfig):
    """Discovered like any application's."""

    name = "tests.process.querying_app"
    label = "querying_app"
