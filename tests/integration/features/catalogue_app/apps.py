"""Names the catalogue app to Django; its entries are imported by mcp.py."""

from __future__ import annotations

from django.apps import AppConfig


class FeaturesCatalogueConfig(AppConfig):
    """The catalogue of the feature tests."""

    name = "tests.integration.features.catalogue_app"
    label = "features_catalogue"
    verbose_name = "Features catalogue"
