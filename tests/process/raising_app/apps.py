"""The Django app of the raising tests."""

from __future__ import annotations

from django.apps import AppConfig


class RaisingConfig(AppConfig):
    """Discovered like any application's."""

    name = "tests.process.raising_app"
    label = "raising_app"
