"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "tests.interop.pages"
    label = "interop_pages"
