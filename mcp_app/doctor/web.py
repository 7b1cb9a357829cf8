"""Checks of the public address.

They cover the server behind it, the rejection of other hosts and origins, and delays of event streams.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from django.apps import apps
from django.db import DatabaseError

from mcp_app.connect.address import connection_at
from mcp_app.doctor.conversation import Arrivals, Conversation, ConversationRefused
from mcp_app.doctor.finding import Finding, Level, error, ok, skipped, warning
from mcp_app.doctor.installation import Installation
from mcp_app.egress import EgressFailed
from mcp_app.egress.self_check import OriginClient, SiteResponse
from mcp_app.models import Tool
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.streams.base import StreamsError
from mcp_app.streams.blocking.presence import Presence

REQUEST_SECONDS = 5.0
STRANGER = "doctor.invalid"
DEMO = "mcp_app.contrib.demo"
STEPS, STEP_SECONDS = 4, 0.5
# A busy machine may delay the events of one call. A proxy that buffers delays those of every call.
ATTEMPTS = 3
UNBUFFERED = "Turn off response buffering and compression for /mcp in the proxy, as deploy/nginx.conf does."


def alive(installation: Installation) -> Iterator[Finding]:
    """Check that this server responds at its public address."""
    check = "web.alive"
    if not installation.url:
        yield skipped(check, "the public address is unknown", "Set PUBLIC_URL, or pass --url.")
        return
    answer = _get(installation, "/healthz")
    server = answer.headers.get("server")
    served = f", served by {server}" if server else ""
    where = f"{installation.url}/healthz"
    if answer.status == 200 and _json(answer).get("status") == "ok":
        yield ok(check, f"{where} responds{served}")
        if _json(answer).get("lifespan") is False:
            text = "the server sends no lifespan events, so this app does not learn when it stops"
            remedy = (
                "Serve with uvicorn, hypercorn or granian, and let lifespan events reach get_application(): "
                "otherwise open streams and running calls are cut off when a process stops."
            )
            yield warning("web.lifespan", text, remedy)
    elif 300 <= answer.status < 400:
        text = f"{where} redirects to {answer.headers.get('location', 'nowhere')}"
        yield error(check, text, "Set PUBLIC_URL to the address that responds without a redirect.")
    else:
        text = f"{where} responds with status {answer.status}{served}"
        remedy = "Route the address to this installation, whose asgi.py uses mcp_app.asgi.get_application()."
        yield error(check, text, remedy)


def ready(installation: Installation) -> Iterator[Finding]:
    """Check that the web processes can reach everything that they depend on."""
    answer = _get(installation, "/readyz")
    if answer.status == 200:
        yield ok("web.ready", "/readyz reports that the web processes can reach everything they need")
        return
    missing = _json(answer).get("missing")
    names = ", ".join(str(name) for name in missing) if isinstance(missing, list) else "unknown"
    yield error(
        "web.ready",
        f"/readyz responds with status {answer.status}; missing: {names}",
        "Start what is missing.",
    )


def hosts(installation: Installation) -> Iterator[Finding]:
    """Check that the public host is accepted and other hosts are rejected (DNS rebinding)."""
    own = _knock(installation)
    if own.status == 421:
        text = f"requests to {urlsplit(installation.url).netloc} are refused (Host)"
        yield error("web.hosts", text, "Set PUBLIC_URL or ALLOWED_HOSTS, and have the proxy pass Host on.")
    elif _lets_in(installation, own, Host=STRANGER):
        text = "requests to other host names are accepted (Host)"
        yield error("web.hosts", text, "Name the hosts in ALLOWED_HOSTS, and have the proxy pass Host on.")
    else:
        yield ok(
            "web.hosts",
            "requests to the public host name are accepted, those to other names are refused (Host)",
        )


def origins(installation: Installation) -> Iterator[Finding]:
    """Check that the origin of the public address is accepted and other origins are rejected."""
    parts = urlsplit(installation.url)
    own = _knock(installation, Origin=f"{parts.scheme}://{parts.netloc}")
    if own.status == 403:
        text = "requests from the public address are refused (Origin)"
        yield error("web.origins", text, "Set PUBLIC_URL, and have the proxy pass Host on.")
    elif _lets_in(installation, own, Origin=f"https://{STRANGER}"):
        text = "requests from other websites are accepted (Origin)"
        yield error(
            "web.origins", text, "Name the origins in ALLOWED_ORIGINS, and have the proxy pass Origin on."
        )
    else:
        yield ok(
            "web.origins",
            "requests from the public address are accepted, those from other websites are refused (Origin)",
        )


def event_stream(installation: Installation) -> Iterator[Finding]:
    """Check that each event arrives when it is sent. A proxy that buffers delays events until the end."""
    check = "web.event_stream"
    endpoint = installation.url + ENDPOINT
    if connection_at(endpoint).needs_key and not installation.key:
        yield skipped(
            check, "an API key is needed", "Pass a key: --key, MCP_API_KEY, or the field on the page Doctor."
        )
        return
    with OriginClient(installation.url, seconds=REQUEST_SECONDS) as site:
        conversation = Conversation(site, urlsplit(endpoint).path, installation.key)
        try:
            conversation.begin()
        except ConversationRefused as refused:
            remedy = "Use a valid key." if refused.status in (401, 403) else "See the server's log."
            yield error(check, str(refused), remedy)
            return
        try:
            yield _timed(conversation, installation)
        finally:
            with suppress(EgressFailed):
                conversation.end()


def _timed(conversation: Conversation, installation: Installation) -> Finding:
    """Return the finding about delays of event streams.

    Measures a slow tool if there is one, until its events arrive in time. Otherwise, measures the first bytes
    of the standalone stream.
    """
    if _has_slow_tool(installation):
        found: Finding | None = None
        for _ in range(ATTEMPTS):
            arrivals = conversation.call("count", _SLOWLY)
            if arrivals is not None:
                found = arrivals_finding(arrivals)
                if found.level is Level.OK:
                    break
        if found is not None:
            return found
    try:
        first = conversation.listen().first
    except EgressFailed as fault:
        return error("web.event_stream", f"no first bytes of an event stream: {fault}", UNBUFFERED)
    return ok("web.event_stream", f"an event stream sent its first bytes after {first:.2f} s")


_SLOWLY = {"to": STEPS, "delay_seconds": STEP_SECONDS}


def arrivals_finding(arrivals: Arrivals) -> Finding:
    """Return the finding for the measured times of a call that takes ``STEPS * STEP_SECONDS``."""
    check = "web.event_stream"
    text = f"a call that takes {STEPS * STEP_SECONDS:g} s sent its first event after {arrivals.first:.2f} s"
    text += f" and its last after {arrivals.last:.2f} s"
    if arrivals.last - arrivals.first < STEPS * STEP_SECONDS / 2:
        return error(check, f"{text}: the events are delayed", UNBUFFERED)
    if arrivals.first > STEPS * STEP_SECONDS / 2:
        return warning(check, text, "Find the delay between the public address and the web processes.")
    return ok(check, text)


def _has_slow_tool(installation: Installation) -> bool:
    """Return True if the demo's tool ``count`` can run in a worker without approval."""
    if not apps.is_installed(DEMO) or not installation.redis_url:
        return False
    try:
        waits = Tool.objects.filter(name="count", needs_approval=True).exists()
        return not waits and Presence(installation.redis_url).seen()
    except (StreamsError, DatabaseError):
        return False


def _get(installation: Installation, path: str, **headers: str) -> SiteResponse:
    with OriginClient(installation.url, seconds=REQUEST_SECONDS) as site:
        return site.ask("GET", urlsplit(installation.url).path + path, headers)


def _knock(installation: Installation, **headers: str) -> SiteResponse:
    """Send a GET without a credential to the endpoint.

    The server checks Host and Origin of the request, and the request has no other effect.
    """
    return _get(installation, ENDPOINT, Accept="text/event-stream", **headers)


def _lets_in(installation: Installation, own: SiteResponse, **headers: str) -> bool:
    """Return True if the response equals the response ``own`` to this server's own headers.

    Status and body are compared, because a proxy may reject a request with any status and body.
    """
    try:
        answer = _knock(installation, **headers)
    except EgressFailed:
        return False
    return (answer.status, answer.body) == (own.status, own.body)


def _json(answer: SiteResponse) -> dict[str, object]:
    try:
        body = json.loads(answer.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


CHECKS = (ready, hosts, origins, event_stream)
