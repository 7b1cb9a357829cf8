"""The Django app of the queueing tests."""

from __future__ import annotations

from django.apps import AppConfig


class QueueingConfig(AppConfig):
    """Discovered like any application's."""

    name = "tests.process.queueing_app"
    label = "queueing_app"
