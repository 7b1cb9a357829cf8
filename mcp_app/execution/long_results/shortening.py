"""Long results as the model gets them: what fits, and a sentence about the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mcp_app.execution.long_results.bounds import Size, size_of
from mcp_app.execution.long_results.cutting import cut
from mcp_app.execution.long_results.pages import TEXT, Page, pages_of

SCHEME: Final = "result://"
# The ``_meta`` key of a cut result.
META: Final = "django-mcp/cut"
# The room for the sentence and the link. A bound is at least twice as large.
WORDS_BYTES: Final = 480
# A text is not cut to fewer bytes than this.
_LEAST_TEXT: Final = 100
_MAX_SHOWN: Final = 200
_NAMES: Final = {
    "text": "text",
    "image": "image",
    "audio": "recording",
    "resource": "embedded resource",
    "resource_link": "link",
}


@dataclass(frozen=True, slots=True)
class Shortened:
    """A cut result without its sentence. ``whole`` and ``sent`` are sizes in bytes."""

    result: dict[str, Any]
    shown: str
    pages: list[Page]
    whole: int
    sent: int

    def linked(self, uri: str, seconds: float) -> dict[str, Any]:
        """Return the result with a sentence and a link to the whole."""
        count = len(self.pages)
        words = (
            f"{self.shown} Read {uri} for the whole, in {count:,} page{'s' * (count > 1)}, "
            f"within {_duration(seconds)}."
        )
        kind = {page.mime_type for page in self.pages}
        link = {
            "type": "resource_link",
            "uri": uri,
            "name": "whole-result",
            "title": "The whole result",
            "mimeType": kind.pop() if len(kind) == 1 else TEXT,
            "size": self.whole,
        }
        return self._ended([{"type": "text", "text": words}, link], {"uri": uri, "pages": count})

    def unlinked(self) -> dict[str, Any]:
        """Return the result with a sentence that the rest is not stored."""
        words = f"{self.shown} The rest is not stored. Narrow the request to see it."
        return self._ended([{"type": "text", "text": words}], {})

    def _ended(self, blocks: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
        about = {"bytes": self.whole, "sentBytes": self.sent, **facts}
        return {
            **self.result,
            "content": [*self.result["content"], *blocks],
            "_meta": {**self.result.get("_meta", {}), META: about},
        }


def shorten(result: dict[str, Any], bound: Size) -> Shortened:
    """Cut a result to its bound. Texts are cut, and other blocks that do not fit are left out."""
    left = Size(bound.text - WORDS_BYTES, bound.total - WORDS_BYTES)
    content: list[dict[str, Any]] = []
    shown: list[str] = []
    missing: Counter[str] = Counter()
    cut_value = None
    for block in result["content"]:
        kept, size = block, size_of([block])
        if not size.fits(left):
            room = min(left)
            if block["type"] != "text" or room < _LEAST_TEXT:
                missing[block["type"]] += 1
                continue
            part = cut(block["text"], room)
            kept = {**block, "text": part.text}
            size, cut_value = size_of([kept]), part.value
            shown.append(part.shown)
        content.append(kept)
        left = Size(left.text - size.text, left.total - size.total)
    found = {**result, "content": content}
    if "structuredContent" in result:
        part_shown = _cut_structure(found, result, cut_value, left)
        if part_shown is None:
            missing["structured content"] += 1
        elif part_shown:
            shown.append(f"{part_shown} of the structured content")
    pages = pages_of(result, bound.text - WORDS_BYTES)
    whole = sum(len(page.content.encode()) for page in pages)
    return Shortened(found, _sentence(shown, missing), pages, whole, size_of(content).total)


def _cut_structure(found: dict[str, Any], result: dict[str, Any], cut_value: Any, left: Size) -> str | None:
    """Cut the structured content of ``found`` like its text.

    Return the part that is shown, "" if nothing is missing beside the text, or None if it is left out.
    """
    structured = found.pop("structuredContent")
    text = orjson.dumps(structured).decode()
    if any(block.get("text") == text for block in result["content"]):
        # The text has the same JSON. Clients use one of the two.
        if cut_value is None and text not in (block.get("text") for block in found["content"]):
            return ""
        found["structuredContent"] = structured if cut_value is None else cut_value
        return ""
    if len(text.encode()) <= min(left):
        found["structuredContent"] = structured
        return ""
    part = cut(text, min(left)) if min(left) >= _LEAST_TEXT else None
    if part is None or part.value is None:
        return None
    found["structuredContent"] = part.value
    return part.shown


def _sentence(shown: list[str], missing: Counter[str]) -> str:
    parts = [f"Shown: {'; '.join(shown)[:_MAX_SHOWN]}."] if shown else ["This result is incomplete."]
    if missing:
        names = [f"{count} {_named(kind, count)}" for kind, count in missing.items()]
        parts.append(f"Left out: {', '.join(names)}.")
    return " ".join(parts)


def _named(kind: str, count: int) -> str:
    name = _NAMES.get(kind, kind)
    return f"{name}s" if count > 1 and kind in _NAMES else name


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes"


def page_contents(uri: str, page: Page, number: int, pages: int, following: str) -> list[dict[str, Any]]:
    """Return the ``contents`` of one page: its content, then a sentence that names the next page."""
    words = f"Page {number:,} of {pages:,}."
    if following:
        words += f" Read {following} for the next page."
    content = {
        "uri": uri,
        "mimeType": page.mime_type,
        "blob" if page.is_blob else "text": page.content,
        "_meta": {META: {"page": number, "pages": pages, "next": following or None}},
    }
    return [content, {"uri": following or uri, "mimeType": TEXT, "text": words}]
