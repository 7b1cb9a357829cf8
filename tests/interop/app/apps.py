"""The Django app of every feature."""

from __future__ import annotations

from django.apps import AppConfig


class EveryFeatureConfig(AppConfig):
    name = "tests.interop.app"
    label = "every_feature"
