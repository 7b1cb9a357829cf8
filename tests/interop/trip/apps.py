"""The Django app of the trip."""

from __future__ import annotations

from django.apps import AppConfig


class TripConfig(AppConfig):
    name = "tests.interop.trip"
    label = "trip"
