"""The bounds of a tool's results, and the sizes that are compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from mcp_app.catalogue.definitions.tool_limits import BYTES_PER_TOKEN
from mcp_app.conf import Settings


class Bounded(Protocol):
    """The part of a tool's entry that its bound depends on."""

    @property
    def output(self) -> Any:
        """The output schema, or None."""
        ...

    @property
    def max_result_tokens(self) -> int | None:
        """The tool's bound in tokens."""
        ...

    @property
    def max_result_bytes(self) -> int | None:
        """The tool's bound in bytes."""
        ...


class Size(NamedTuple):
    """A size or a bound in bytes: of texts alone, and of texts and base64 data together.

    A model reads images and audio in another way than text, so only texts are counted as tokens.
    """

    text: int
    total: int

    def fits(self, bound: Size) -> bool:
        """Return True if this size is within ``bound``."""
        return self.text <= bound.text and self.total <= bound.total


class LongResult(dict[str, Any]):
    """A result that exceeds its tool's bound. It must be cut before it is sent."""


def bound_of(entry: Bounded, settings: Settings, *, is_error: bool = False) -> Size | None:
    """Return the bound of a tool's results, or None if they are sent whole.

    Results with an output schema are never cut, because part of one may not fit the schema. The schema
    promises nothing about errors.
    """
    tokens = settings.max_result_tokens if entry.max_result_tokens is None else entry.max_result_tokens
    if not settings.max_result_tokens or (entry.output is not None and not is_error):
        return None
    total = min(entry.max_result_bytes or settings.max_result_bytes, settings.max_result_bytes)
    return Size(min(tokens * BYTES_PER_TOKEN, total), total)


def size_of(blocks: Iterable[Mapping[str, Any]]) -> Size:
    """Return the size of content blocks."""
    text = data = 0
    for block in blocks:
        resource = block.get("resource") or {}
        for part in (block.get("text"), resource.get("text")):
            if part:
                text += len(part) if part.isascii() else len(part.encode())
        data += len(block.get("data") or "") + len(resource.get("blob") or "")
    return Size(text, text + data)


def marked(result: dict[str, Any], entry: Bounded, settings: Settings, size: Size) -> dict[str, Any]:
    """Return ``result`` as a ``LongResult`` if its size exceeds the tool's bound, else unchanged."""
    bound = bound_of(entry, settings, is_error="isError" in result)
    return result if bound is None or size.fits(bound) else LongResult(result)
