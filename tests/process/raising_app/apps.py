"""The Django app of the tests of code that raises anything."""

from __future__ import annotations

from django.apps import AppConfig


class RaisingConfig(AppConfig):
    """Discovered like any application's."""

    name = "tests.process.raising_app"
    label = "raising_app"
