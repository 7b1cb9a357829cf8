"""The Django app of the tracing tests."""

from __future__ import annotations

from django.apps import AppConfig


class TracingProbesConfig(AppConfig):
    name = "tests.integration.tracing.app"
    label = "tracing_probes"
