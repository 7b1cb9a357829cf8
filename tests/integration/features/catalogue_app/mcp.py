"""Registers the app's entries, in the order in which they are listed."""

from tests.integration.features.catalogue_app import (  # noqa: F401 - importing registers
    answers,
    documents,
    failures,
    prompts,
    questions,
    structures,
    work,
)
