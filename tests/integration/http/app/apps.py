"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class TransportProbesConfig(AppConfig):
    name = "tests.integration.http.app"
    label = "transport_probes"
