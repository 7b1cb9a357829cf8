"""Calls of HTTP tools: cache, pages, and the result for the caller."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urljoin

import orjson

from mcp_app.catalogue.definitions.content import ToolError, ToolResult
from mcp_app.catalogue.sources.http.answers import (
    Received,
    error_of,
    json_of,
    mapped_value,
    result_of,
    structured_result,
)
from mcp_app.catalogue.sources.http.arguments import FIELDS
from mcp_app.catalogue.sources.http.filling import filled, with_wire_names
from mcp_app.catalogue.sources.http.mapping import MappingError, mapped
from mcp_app.catalogue.sources.http.plan import Pages, RequestPlan
from mcp_app.catalogue.sources.http.sending import Recorder, credential_version, sent
from mcp_app.egress import Request
from mcp_app.streams.blocking import shared_values

MAX_CACHED_BYTES: Final = 256 * 1024
_LINK: Final = re.compile(r'<([^<>]*)>\s*((?:;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s;,]+)\s*)*)')
_NEXT: Final = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next)', re.IGNORECASE)


async def called(
    plan: RequestPlan, arguments: Mapping[str, Any], recorder: Recorder | None = None
) -> ToolResult:
    """Send the plan's request for some arguments and return the result. Raises ToolError."""
    try:
        given = with_wire_names(arguments, plan.aliases)
        pick = given.pop(FIELDS, None) if plan.result.fields else None
        request = filled(plan, given, idempotency_key=secrets.token_hex(16))
    except RecursionError:
        raise ToolError("The arguments are nested too deeply.") from None
    until = time.monotonic() + plan.timeout
    if plan.pages is not None:
        return structured_result(plan, await _pages(plan, plan.pages, request, until, recorder), pick)
    received = await _received(plan, request, until, recorder)
    return result_of(plan, received, pick)


async def _received(plan: RequestPlan, request: Request, until: float, recorder: Recorder | None) -> Received:
    """Return a successful answer, from the cache if it is there. Raises ToolError for other statuses."""
    key = _cache_key(plan, request, await credential_version(plan, request)) if plan.cache_seconds else ""
    kept = await asyncio.to_thread(_kept, key) if key else None
    if kept is not None and plan.succeeded(kept.status):
        if recorder is not None:
            recorder.cached = True
        return kept
    received = await sent(plan, request, until, recorder)
    if not plan.succeeded(received.status):
        raise error_of(plan, received)
    if key and (seconds := _cache_seconds(plan, received)):
        await asyncio.to_thread(shared_values.put, key, _stored(received), seconds)
    return received


def _cache_key(plan: RequestPlan, request: Request, credential: str) -> str:
    """Return the key of an answer. The answer to another secret of the credential has another key."""
    parts = [request.method, request.url, request.headers, plan.credential, credential, plan.cache_seconds]
    body = hashlib.sha256(request.body or b"").hexdigest()
    return f"http-answer/{hashlib.sha256(orjson.dumps([*parts, body])).hexdigest()}"


def _cache_seconds(plan: RequestPlan, received: Received) -> float:
    """Return how long an answer may be cached. The server can shorten the time, but not extend it."""
    if len(received.body) > MAX_CACHED_BYTES or received.header("vary").strip() == "*":
        return 0
    cache_control = received.header("cache-control").lower()
    directives = {part.strip().partition("=")[0]: part.partition("=")[2] for part in cache_control.split(",")}
    if directives.keys() & {"no-store", "private", "no-cache"}:
        return 0
    stated = directives.get("max-age", "").strip('" ')
    is_number = stated.isascii() and stated.isdigit()
    return min(plan.cache_seconds, int(stated[:9])) if is_number else plan.cache_seconds


def _stored(received: Received) -> bytes:
    kept = {name: value for name, value in received.headers if name in ("link", "location")}
    body = base64.b64encode(received.body).decode()
    return orjson.dumps([received.status, received.content_type, received.charset, kept, body])


def _kept(key: str) -> Received | None:
    stored = shared_values.get(key)
    if stored is None:
        return None
    status, content_type, charset, headers, body = orjson.loads(stored)
    return Received(status, content_type, charset, tuple(headers.items()), base64.b64decode(body))


async def _pages(
    plan: RequestPlan, pages: Pages, request: Request, until: float, recorder: Recorder | None
) -> dict[str, Any]:
    """Return the items of up to ``max_pages`` pages, and the state that continues after them."""
    items: list[Any] = []
    size, following = 0, request
    for _ in range(pages.max_pages):
        received = await _received(plan, following, until, recorder)
        size += len(received.body)
        value = json_of(received)
        found = _items(pages, value)
        items += found
        after = _following(pages, received, value, following, len(found))
        if after is None:
            return {"items": mapped_value(plan, items, size), "complete": True}
        following = after
    return {"items": mapped_value(plan, items, size), "complete": False, "next": following.url}


def _items(pages: Pages, value: Any) -> list[Any]:
    try:
        found = mapped(pages.items, value)
    except MappingError as error:
        raise ToolError(f"The list of the page was not found. {error}") from None
    if not isinstance(found, list):
        raise ToolError("The answer has no list where the tool's pages expect one.")
    return found


def _following(pages: Pages, received: Received, value: Any, request: Request, count: int) -> Request | None:
    """Return the request for the next page, or None after the last page."""
    if pages.kind == "link":
        return _linked(received, request)
    if pages.kind == "cursor":
        try:
            token = mapped(pages.token, value)
        except MappingError:
            token = None
        is_token = isinstance(token, (str, int)) and not isinstance(token, bool)
        return _with(request, pages.parameter, str(token)) if is_token and token != "" else None
    if not count:
        return None
    step = count if pages.kind == "offset" else 1
    present = _number(request, pages.parameter, 0 if pages.kind == "offset" else 1)
    return _with(request, pages.parameter, str(present + step))


def _linked(received: Received, request: Request) -> Request | None:
    """Return the request for the link "next" (RFC 8288). A link to another server ends the pages."""
    for address, parameters in _LINK.findall(", ".join(v for k, v in received.headers if k == "link")):
        if _NEXT.search(parameters):
            try:
                url = urljoin(request.url, address)
            except ValueError:  # The address has an invalid host.
                return None
            return replace(request, url=url) if _same_origin(url, request.url) else None
    return None


def _same_origin(one: str, other: str) -> bool:
    return _origin(one) == _origin(other)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3]).lower()


def _number(request: Request, parameter: str, first: int) -> int:
    for name, value in parse_qsl(request.url.partition("?")[2], keep_blank_values=True):
        if name == parameter and value.isascii() and value.isdigit():
            return int(value[:12])
    return first


def _with(request: Request, parameter: str, value: str) -> Request:
    """Return the request with another value of a query parameter."""
    base, _, query = request.url.partition("?")
    kept = [pair for pair in query.split("&") if pair and unquote_plus(pair.partition("=")[0]) != parameter]
    return replace(request, url=f"{base}?{'&'.join([*kept, urlencode({parameter: value})])}")
