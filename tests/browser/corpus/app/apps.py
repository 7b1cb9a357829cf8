"""Names the app to Django; its entries are imported by mcp.py."""

from __future__ import annotations

from django.apps import AppConfig


class CorpusAppConfig(AppConfig):
    """The entries of the corpus tests."""

    name = "tests.browser.corpus.app"
    label = "corpus_app"
    verbose_name = "Corpus tests"
