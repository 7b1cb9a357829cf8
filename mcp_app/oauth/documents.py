"""Clients whose id is the address of their metadata document (AUTH-41 to AUTH-43).

The document is fetched when a person connects the client, by the guarded client only. The token endpoint
never fetches a document. If a fetch fails, the stored copy stays valid for a week.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.egress.client import Fetched, fetch
from mcp_app.egress.policy import EgressError, Policy
from mcp_app.metrics import tally
from mcp_app.oauth.connections import audit_client
from mcp_app.oauth.models import Client
from mcp_app.oauth.registration import MAX_UNUSED, RegistrationRefused, metadata_of, new_client

POLICY: Final = Policy(
    ports=frozenset({443}),
    content_types=frozenset(
        {"application/json", "application/client-metadata+json", "application/cimd+json"}
    ),
    max_redirects=0,
    max_raw_bytes=16 * 1024,
    max_bytes=16 * 1024,
    seconds=5.0,
    connect_seconds=3.0,
)
STALE: Final = timedelta(days=7)
FRESH_SECONDS: Final = (300, 86_400)
BACKOFF_SECONDS: Final = 60.0
MAX_BACKED_OFF: Final = 1_000
_MAX_AGE: Final = re.compile(r"max-age\s*=\s*(\d{1,9})", re.IGNORECASE)
Fetch = Callable[[str, Policy], Awaitable[Fetched]]

_slots = threading.BoundedSemaphore(4)
_failed: dict[str, float] = {}


class DocumentRefused(Exception):
    """A refusal of a document. Its text is shown to the person who is connecting the client."""


def is_document(client_id: str) -> bool:
    """Return True if a client id is the address of a document."""
    return client_id.startswith("https://")


def find_or_fetch(client_id: str, fetch: Fetch = fetch) -> Client | None:
    """Return the client described by a document. Fetch a new document or an expired copy first.

    Waits for a fetch slot and for the fetch, each for at most POLICY.seconds. Raises DocumentRefused if the
    address is not allowed, or if the fetch fails and there is no stored copy younger than STALE.
    """
    known: Client | None = Client.objects.filter(client_id=client_id).first()
    if known is not None and known.registration_source != Client.RegistrationSource.CIMD:
        return known
    # Stored copies are checked as well, because the settings may allow fewer hosts than before.
    check_id(client_id)
    now = clock.utcnow()
    if known is not None and known.cimd_expires_at and known.cimd_expires_at > now:
        return known
    try:
        client = _stored(client_id, known, *_fetched(client_id, fetch))
    except DocumentRefused:
        fetched_at = known.document_fetched_at if known is not None else None
        if fetched_at is not None and fetched_at > now - STALE:
            tally.note("oauth_document", "stale")
            return known
        tally.note("oauth_document", "refused")
        raise
    tally.note("oauth_document", "ok")
    return client


def check_id(client_id: str) -> str:
    """Return the host of a document's address. Raises DocumentRefused for an invalid or forbidden address."""
    try:
        parts = urlsplit(client_id)
        port = parts.port
    except ValueError:
        raise DocumentRefused("The client's id must be an https address with a path.") from None
    # Some resolvers decode %2e to a dot.
    segments = unquote(parts.path).split("/")
    if (
        parts.scheme != "https"
        or not parts.hostname
        or "@" in parts.netloc
        or "#" in client_id
        or parts.path in ("", "/")
        or {".", ".."} & set(segments)
        or port not in (None, 443)
        or len(client_id) > 255
    ):
        raise DocumentRefused("The client's id must be an https address with a path.")
    if not is_let(parts.hostname):
        words = f"This server does not let clients of {parts.hostname} connect by a document. "
        raise DocumentRefused(words + "Have an administrator add the client, or allow the host.")
    return parts.hostname


def accepted() -> bool:
    """Return True if this server accepts client documents."""
    settings = conf.get()
    return settings.oauth_documents != "off" and bool(settings.oauth_document_hosts)


def is_let(host: str) -> bool:
    """Return True if clients with a document on ``host`` may connect and stay connected."""
    return accepted() and ("*" in conf.get().oauth_document_hosts or is_named(host))


def is_named(host: str) -> bool:
    """Return True if the settings list ``host`` or one of its parent domains. ``*`` matches nothing here."""
    hosts = conf.get().oauth_document_hosts
    return any(host == known or host.endswith("." + known) for known in hosts)


def _fetched(client_id: str, fetch: Fetch) -> tuple[dict[str, Any], int]:
    """Fetch a document. Return its content and its lifetime in seconds."""
    until = _failed.get(client_id)
    if until is not None and time.monotonic() < until:
        raise DocumentRefused("The client's document could not be read a moment ago. Try again in a minute.")
    if not _slots.acquire(timeout=POLICY.seconds):
        raise DocumentRefused("Too many clients are being looked up now. Try again in a moment.")
    try:
        got = async_to_sync(fetch)(client_id, POLICY)
        return _document(client_id, got), _freshness(got.headers.get("cache-control", ""))
    except (EgressError, DocumentRefused) as error:
        if len(_failed) >= MAX_BACKED_OFF:
            _failed.clear()
        _failed[client_id] = time.monotonic() + BACKOFF_SECONDS
        remedy = "If that does not pass, an administrator can look at mcp_doctor, or set OAUTH_DOCUMENTS=off."
        raise DocumentRefused(f"The client's document could not be read. {error} {remedy}") from None
    finally:
        _slots.release()


def _document(client_id: str, got: Fetched) -> dict[str, Any]:
    said = got.json_object() if got.status == 200 else None
    if said is None:
        raise DocumentRefused("It is not a JSON object.")
    if said.get("client_id") != client_id:
        raise DocumentRefused("It is about another client.")
    if not isinstance(said.get("client_name"), str) or not said["client_name"].strip():
        raise DocumentRefused("It does not name the client.")
    if (said.get("token_endpoint_auth_method") or "none") != "none" or "client_secret" in said:
        raise DocumentRefused("A client with a document has no secret.")
    return said


def _freshness(cache_control: str) -> int:
    least, most = FRESH_SECONDS
    lowered = cache_control.lower()
    if "no-store" in lowered or "no-cache" in lowered:
        return least
    found = _MAX_AGE.search(lowered)
    return max(least, min(int(found[1]) if found else most, most))


def _stored(client_id: str, known: Client | None, said: dict[str, Any], fresh: int) -> Client:
    try:
        metadata = metadata_of({**said, "token_endpoint_auth_method": "none"})
    except RegistrationRefused as error:
        raise DocumentRefused(str(error)) from None
    now = clock.utcnow()
    client = known or new_client(metadata, Client.RegistrationSource.CIMD, client_id=client_id)
    before = client.name, client.redirect_uris
    client.name, client.redirect_uris = metadata.name, " ".join(metadata.redirect_uris)
    client.document_fetched_at, client.cimd_expires_at = now, now + timedelta(seconds=fresh)
    if known is None:
        unused = Client.objects.filter(registration_source=Client.RegistrationSource.CIMD, connections=None)
        if unused.count() >= MAX_UNUSED:
            raise DocumentRefused("Too many unused clients are stored. Try again tomorrow.")
    try:
        with transaction.atomic():
            client.save()
            if known is None:
                audit_client(None, "oauth.client_register", client)
            elif before != (client.name, client.redirect_uris):
                audit_client(None, "oauth.client_change", client, before=list(before))
    except IntegrityError:  # A concurrent request stored the same new client.
        client = Client.objects.get(client_id=client_id)
    return client
