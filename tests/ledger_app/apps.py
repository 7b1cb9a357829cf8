"""The Django app of the tools that keep a ledger."""

from __future__ import annotations

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    """Discovered like any application's."""

    name = "tests.ledger_app"
    label = "ledger_app"
