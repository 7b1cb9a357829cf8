"""Collection of a row's problems by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Errors = dict[str, list[str]]
MAX_TEXT: Final = 100_000


class UnfitError(ValueError):
    """A value that cannot be stored. The text is shown to the administrator."""


def collect(errors: Errors, field: str, run: Callable[[], object]) -> None:
    """Run a check of a field, and record the text of its ValueError. Fields with an error are skipped."""
    if field in errors:
        return
    try:
        run()
    except ValueError as error:
        errors[field] = [str(error)]


def check_length(text: str) -> None:
    """Raise UnfitError for a text over MAX_TEXT characters."""
    if len(text) > MAX_TEXT:
        raise UnfitError(f"This has {len(text)} characters: use at most {MAX_TEXT}.")
