"""The Django app of pages."""

from __future__ import annotations

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "tests.interop.pages"
    label = "interop_pages"
