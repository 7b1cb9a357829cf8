"""Tags of entries: short lower-case words that group entries of all kinds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

MAX_TAGS: Final = 20
MAX_TAG: Final = 50

_TAG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?")
_OTHERS: Final = re.compile(r"[^a-z0-9_.]+")


def tag_of(text: str) -> str:
    """Convert text to a tag: ``pet-store`` for ``Pet Store``. Return "" if no letter or digit is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _OTHERS.sub("-", plain)[:MAX_TAG].strip("-_.")


def tags_of(texts: Iterable[str]) -> list[str]:
    """Convert texts to sorted tags, without repetitions and empty tags."""
    return sorted({tag for text in texts if (tag := tag_of(text))})


def check_tags(tags: Any) -> None:
    """Raise ValueError for anything but a list of at most MAX_TAGS different tags."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("Tags must be a list of words.")
    for tag in tags:
        if len(tag) > MAX_TAG or not _TAG.fullmatch(tag):
            raise ValueError(
                f"{tag[:MAX_TAG]!r} is not a tag: use {MAX_TAG} lower-case letters, digits and _.- at most."
            )
    if len(tags) > MAX_TAGS:
        raise ValueError(f"These are {len(tags)} tags: use at most {MAX_TAGS}.")
    if len(set(tags)) < len(tags):
        raise ValueError("A tag is repeated.")


def tags_in(meta: Any) -> tuple[str, ...]:
    """Return the tags in a ``_meta`` object, without values that are not tags."""
    given = meta.get("tags") if isinstance(meta, dict) else None
    words = given if isinstance(given, list) else []
    return tuple(tag for tag in words if isinstance(tag, str) and len(tag) <= MAX_TAG and _TAG.fullmatch(tag))
