"""Compressed forms of documents and surveys, as the database stores them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import orjson

from mcp_app.catalogue.sources.http.openapi.reading import Document
from mcp_app.catalogue.sources.http.openapi.survey import SurveyedOperation


def packed_document(document: Document) -> bytes:
    """Return a document as compressed JSON."""
    return packed(
        {
            "root": document.root,
            "version": document.version,
            "url": document.url,
            "sha256": document.sha256,
            "others": document.others,
        }
    )


def unpacked_document(data: bytes | memoryview) -> Document:
    """Return a stored document."""
    return Document(**unpacked(data))


def packed_survey(operations: Iterable[SurveyedOperation]) -> bytes:
    """Return a survey as compressed JSON."""
    return packed([asdict(each) for each in operations])


def unpacked_survey(data: bytes | memoryview | None) -> list[SurveyedOperation]:
    """Return a stored survey."""
    rows = unpacked(data) if data is not None else []
    # Surveys that an earlier version has stored have no bodies.
    lists = ("tags", "security", "notes", "bodies")
    return [
        SurveyedOperation(**{**row, **{name: tuple(row.get(name, ())) for name in lists}}) for row in rows
    ]


def packed(value: Any) -> bytes:
    """Return a JSON value as compressed bytes."""
    try:
        text = orjson.dumps(value)
    except TypeError:  # An integer of more than 64 bits, or a lone surrogate.
        text = json.dumps(value).encode()
    return zlib.compress(text, 6)


def unpacked(data: bytes | memoryview) -> Any:
    """Return the JSON value in compressed bytes."""
    text = zlib.decompress(data)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
