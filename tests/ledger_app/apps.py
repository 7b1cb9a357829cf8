"""The Django app of the ledger's tools."""

from __future__ import annotations

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    """An app whose tools are discovered like any other's."""

    name = "tests.ledger_app"
    label = "ledger_app"
