"""Pasted entries of HAR files, which browsers save."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any, Final

from mcp_app.catalogue.sources.http.curl import (
    Pasted,
    PasteError,
    body_of,
    notes_of,
    read_curl,
    with_headers,
    without_secrets,
)
from mcp_app.catalogue.sources.http.entered import Entered

MAX_TEXT: Final = 5_000_000


def read_pasted(text: str) -> Pasted:
    """Return the request of a curl line or of a HAR entry. Raises PasteError."""
    pasted = read_har(text) if text.lstrip().startswith("{") else read_curl(text)
    return replace(pasted, entered=Entered(*map(_with_pairs, astuple(pasted.entered))))


def _with_pairs(text: str) -> str:
    """Return a text in which pairs of escaped surrogates are characters. Browsers escape emoji so."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_har(text: str) -> Pasted:
    """Return the request of a HAR file or of one of its entries. Raises PasteError.

    From a file with several entries, the first one with a JSON answer is used.
    """
    if len(text) > MAX_TEXT:
        raise PasteError("The text is too long: paste one entry.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise PasteError("Not valid JSON: paste an entry of a HAR file, or a curl line.") from None
    entry, notes = _chosen(value)
    request = entry.get("request", entry)
    if not isinstance(request, Mapping) or not isinstance(request.get("url"), str):
        raise PasteError("The entry has no request with an address.")
    left_out: list[str] = []
    headers = with_headers(_pairs(request.get("headers")), left_out)
    posted = request.get("postData")
    mode, body, content_type = "none", "", ""
    if isinstance(posted, Mapping) and isinstance(posted.get("text"), str):
        mode, body, content_type = body_of(posted["text"], str(posted.get("mimeType", "")))
        headers = [pair for pair in headers if pair[0].lower() != "content-type"]
    shown = "\n".join(f"{name}: {value}" for name, value in headers)
    method = str(request.get("method", "GET")).upper()
    url = without_secrets(request["url"], left_out)
    entered = Entered(method, url, shown, mode, body, content_type)
    return Pasted(entered, (*notes, *notes_of(left_out)))


def _chosen(value: Any) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    log = value.get("log") if isinstance(value, Mapping) else None
    entries = log.get("entries") if isinstance(log, Mapping) else None
    if not isinstance(entries, list):
        return value, ()
    found = [each for each in entries if isinstance(each, Mapping)]
    if not found:
        raise PasteError("The HAR file has no entries.")
    chosen = next((each for each in found if _answers_json(each)), found[0])
    if len(found) == 1:
        return chosen, ()
    return chosen, (f"The file has {len(found)} entries. Used is the first one with a JSON answer.",)


def _answers_json(entry: Mapping[str, Any]) -> bool:
    response = entry.get("response")
    content = response.get("content") if isinstance(response, Mapping) else None
    return "json" in str(content.get("mimeType", "")) if isinstance(content, Mapping) else False


def _pairs(headers: Any) -> list[tuple[str, str]]:
    if not isinstance(headers, list):
        return []
    found = (each for each in headers if isinstance(each, Mapping))
    return [(str(each.get("name", "")), str(each.get("value", ""))) for each in found]
