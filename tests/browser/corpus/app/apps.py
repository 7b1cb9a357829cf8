"""The Django app of the corpus tests; its entries are in mcp.py."""

from __future__ import annotations

from django.apps import AppConfig


class CorpusAppConfig(AppConfig):
    """The entries of the corpus tests."""

    name = "tests.browser.corpus.app"
    label = "corpus_app"
    verbose_name = "Corpus tests"
