"""The sending of a filled plan: credential, attempts, one forced new token, and the bounded answer."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Final

from mcp_app import conf
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.sources.http.answers import MAX_ERROR_BYTES, Received
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.credentials.hiding import hidden, hidden_bytes, query_texts, secret_texts
from mcp_app.credentials.outgoing import recorded, with_hidden
from mcp_app.credentials.services import CredentialRefused, refused, secrets_for, version_of
from mcp_app.egress import Answer, EgressFailed, EgressRefused, Request, Secrets
from mcp_app.egress.policy import entered
from mcp_app.observability.correlation import principal
from mcp_app.observability.redaction import without_query_values

# Statuses after which another attempt may succeed.
_PASSING: Final = frozenset({429, 502, 503, 504})
_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 5.0
# Enough of a body that is not a success to map it.
_MAX_ERROR_INPUT: Final = 64 * 1024
HIDDEN: Final = "••••"

log = logging.getLogger("mcp.http_tool")


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt for display. Secrets are replaced with ``HIDDEN``."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    received: Received | None
    problem: str
    # False if no byte of the request left this server.
    sent: bool
    milliseconds: int


@dataclass(slots=True)
class Recorder:
    """The attempts of a call that a person tries out, and the pages that came from the cache."""

    attempts: list[Attempt] = field(default_factory=list)
    cached: bool = False

    def add(
        self,
        request: Request,
        own: Secrets,
        received: Received | None,
        error: EgressFailed | EgressRefused | None,
        started: float,
    ) -> None:
        """Record one attempt."""
        url, headers = with_hidden(request, own, HIDDEN)
        spent = round((time.monotonic() - started) * 1000)
        problem, sent = ("", True) if error is None else (str(error), error.sent)
        attempt = Attempt(request.method, url, headers, request.body, received, problem, sent, spent)
        self.attempts.append(attempt)


async def sent(
    plan: RequestPlan, request: Request, until: float, recorder: Recorder | None = None
) -> Received:
    """Send a request until it succeeds, at most ``1 + plan.retries`` times, and return the answer.

    ``until`` is the deadline by the monotonic clock. Raises ToolError if there is no answer.
    """
    left = plan.retries
    renewed = False
    while True:
        received, failure, own = await _attempt(plan, request, until, recorder)
        if received is not None and received.status in (401, 403) and plan.credential:
            may_renew = await refused(plan.credential, own, received.status)
            if may_renew and not renewed:
                renewed = True
                continue
        if not left or not _may_follow(plan, request, received, failure):
            break
        delay = _delay(plan.retries - left, received)
        if time.monotonic() + delay >= until:
            break
        left -= 1
        await asyncio.sleep(delay)
    if received is None:
        raise ToolError(str(failure))
    return received


async def _attempt(
    plan: RequestPlan, request: Request, until: float, recorder: Recorder | None
) -> tuple[Received | None, EgressFailed | None, Secrets]:
    started = time.monotonic()
    own = await _own(plan, request, until)
    most = conf.get().max_result_bytes
    policy = entered(seconds=max(until - time.monotonic(), 0.001), max_bytes=most)
    received: Received | None = None
    failure: EgressFailed | None = None
    error: EgressFailed | EgressRefused | None = None
    try:
        shown, private = _private(plan, request)
        async with recorded(request, policy, own, caller=principal(), shown=shown, private=private) as answer:
            received = await _read(plan, answer, most)
            repeated = () if plan.succeeded(received.status) else private
            received = _shortened(_without_secrets(received, (*secret_texts(own), *repeated)))
    except EgressFailed as failed:
        failure = error = failed
    except EgressRefused as refusal:
        error = refusal
        raise ToolError(str(refusal)) from None
    finally:
        if recorder is not None:
            recorder.add(request, own, received, error, started)
    log.debug("%s %s: %s", request.method, plan.origin, received.status if received else failure)
    return received, failure, own


def _private(plan: RequestPlan, request: Request) -> tuple[str, tuple[str, ...]]:
    """Return the URL without the values of the fixed query, any of which may be a key, and their texts."""
    fixed = plan.fixed_query
    names = {pair.partition("=")[0] for pair in fixed.split("&")}
    return without_query_values(request.url, names) if fixed else "", query_texts(fixed)


async def _own(plan: RequestPlan, request: Request, until: float) -> Secrets:
    if not plan.credential:
        return Secrets()
    try:
        async with asyncio.timeout(max(until - time.monotonic(), 0.001)) as limit:
            return await secrets_for(plan.credential, request.url)
    except CredentialRefused as refusal:
        raise ToolError(str(refusal)) from None
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(
            f"The credential {plan.credential!r} got no access token within {plan.timeout:g} seconds."
        ) from None


async def credential_version(plan: RequestPlan, request: Request) -> str:
    """Return a text that changes with the plan's credential. Raises ToolError if it cannot be used."""
    if not plan.credential:
        return ""
    try:
        return await version_of(plan.credential, request.url)
    except CredentialRefused as refusal:
        raise ToolError(str(refusal)) from None


async def _read(plan: RequestPlan, answer: Answer, most: int) -> Received:
    body, cut = bytearray(), False
    if plan.succeeded(answer.status):
        body += await answer.read(most)
    else:
        async for chunk in answer.chunks():
            body += chunk
            if len(body) > _MAX_ERROR_INPUT:
                # The rest is not read, so the connection closes.
                cut = True
                break
    return Received(answer.status, answer.content_type, answer.charset, answer.headers, bytes(body), cut)


def _without_secrets(received: Received, secrets: tuple[str, ...]) -> Received:
    """Return an answer without the secrets, which the server may have repeated."""
    if not secrets:
        return received
    headers = tuple((name, hidden(value, secrets)) for name, value in received.headers)
    return replace(received, headers=headers, body=hidden_bytes(received.body, secrets))


def _shortened(received: Received) -> Received:
    """Return an answer with the beginning of a cut body. Cut earlier, it could end within a secret."""
    return replace(received, body=received.body[: MAX_ERROR_BYTES * 2]) if received.cut else received


def _may_follow(
    plan: RequestPlan, request: Request, received: Received | None, failure: EgressFailed | None
) -> bool:
    """Return True if another attempt may follow. A request that may not repeat must not have been sent."""
    may_repeat = plan.may_repeat or plan.idempotency_key
    if failure is not None:
        return may_repeat or not failure.sent
    return may_repeat and received is not None and received.status in _PASSING


def _delay(attempt: int, received: Received | None) -> float:
    stated = _retry_after(received.header("retry-after")) if received is not None else None
    if stated is not None:
        return stated
    most = min(_FIRST_DELAY * 2 ** (attempt + 1), _LONGEST_DELAY)
    return random.uniform(_FIRST_DELAY, max(most, _FIRST_DELAY))  # noqa: S311 - not a secret


def _retry_after(text: str) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110 section 10.2.3), or None."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
