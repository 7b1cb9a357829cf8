"""Dynamic client registration (RFC 7591): parsing, storage and limits (AUTH-44)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import orjson
from django.db import transaction

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.models.audit import stored_user
from mcp_app.oauth import redirects, secrets
from mcp_app.oauth.connections import CLIENT_ENTERED, audit_client
from mcp_app.oauth.models import Client
from mcp_app.protocol.rate_window import client_network

MAX_URIS: Final = 10
MAX_BODY: Final = 8 * 1024
MAX_UNUSED: Final = 5_000
REPEATED: Final = timedelta(hours=24)
# Authentication methods for which clients can register. A client gets a secret only if it requests a method
# with a secret.
AUTH_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
GRANTS: Final = ("authorization_code", "refresh_token")
_MAX_NAME: Final = 100


class RegistrationRefused(Exception):
    """A refusal of a registration.

    ``code`` is an error code of RFC 7591, ``status`` an HTTP status and ``wait`` a time in seconds.
    """

    def __init__(self, code: str, description: str, status: int = 400, wait: int = 0) -> None:
        super().__init__(description)
        self.code, self.status, self.wait = code, status, wait


@dataclass(frozen=True, slots=True)
class Metadata:
    """The part of a client's metadata that is stored."""

    name: str
    redirect_uris: tuple[str, ...]
    auth_method: str


def read(body: bytes) -> Metadata:
    """Parse a registration request. Metadata that this server does not support is ignored.

    Raises RegistrationRefused if no redirect URI is valid or a required grant or response type is missing.
    """
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise RegistrationRefused("invalid_client_metadata", "The body must be one JSON object.")
    return metadata_of(said)


def metadata_of(said: dict[str, Any]) -> Metadata:
    """Check a parsed registration as ``read`` does, and return the supported metadata."""
    uris = said.get("redirect_uris")
    if not isinstance(uris, list) or not uris:
        raise RegistrationRefused("invalid_redirect_uri", "redirect_uris must be a list of addresses.")
    if len(uris) > MAX_URIS:
        raise RegistrationRefused("invalid_redirect_uri", f"Send at most {MAX_URIS} redirect URIs.")
    problems = [redirects.problem(uri) for uri in uris]
    good = tuple(dict.fromkeys(uri for uri, wrong in zip(uris, problems, strict=True) if not wrong))
    if not good:
        raise RegistrationRefused("invalid_redirect_uri", problems[0])
    # Null and empty members count as absent, because some clients send every member of the specification.
    grants = said.get("grant_types") or ["authorization_code"]
    if not isinstance(grants, list) or "authorization_code" not in grants:
        raise RegistrationRefused("invalid_client_metadata", "grant_types must have authorization_code.")
    responses = said.get("response_types") or ["code"]
    if not isinstance(responses, list) or "code" not in responses:
        raise RegistrationRefused("invalid_client_metadata", "response_types must have code.")
    method = said.get("token_endpoint_auth_method") or "none"
    if method not in AUTH_METHODS:
        words = f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}. "
        words += "Keys are for service users: have an administrator add one."
        raise RegistrationRefused("invalid_client_metadata", words)
    return Metadata(plain_name(said.get("client_name")), good, method)


def plain_name(name: object) -> str:
    """Return a client's name as one line of printable characters, shortened if it is too long."""
    text = name if isinstance(name, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_NAME]


def register(metadata: Metadata, address: str) -> tuple[Client, str]:
    """Register a client that sent its request from ``address``. Return it and its secret.

    The secret is "" for a public client. If the same network repeats the same metadata within a day, the same
    public client is returned: some programs register at each start with another port. A client with a secret
    is always new, because only a hash of the secret is stored. The hourly limit counts new clients only.

    Raises RegistrationRefused if a limit is exceeded.
    """
    network, per_hour = client_network(address), conf.get().oauth_registrations_per_hour
    uris = tuple(dict.fromkeys(map(redirects.comparable, metadata.redirect_uris)))
    said = orjson.dumps([network, metadata.name, uris, metadata.auth_method])
    digest = hashlib.sha256(said).hexdigest()
    now = clock.utcnow()
    with transaction.atomic():
        own = Client.objects.filter(registration_source=Client.RegistrationSource.DCR)
        if metadata.auth_method == "none":
            known = own.filter(registration=digest, disabled_at=None, updated__gt=now - REPEATED).first()
            if known is not None:
                known.save(update_fields=["updated"])
                return known, ""
        recent = own.filter(network=network, created__gt=now - timedelta(hours=1))
        if per_hour and recent.count() >= per_hour:
            words = (
                f"More than {per_hour} new clients of your network within an hour. Try again later, or have "
            )
            words += "an administrator add the client or raise OAUTH_REGISTRATIONS_PER_HOUR."
            raise RegistrationRefused("temporarily_unavailable", words, 429, 3_600)
        if own.filter(connections=None).count() >= MAX_UNUSED:
            words = (
                "Too many unused clients are registered. Try again later, or have an administrator add it."
            )
            raise RegistrationRefused("temporarily_unavailable", words, 503, 3_600)
        secret = "" if metadata.auth_method == "none" else secrets.new(secrets.SECRET)
        client = new_client(metadata, Client.RegistrationSource.DCR, secret)
        client.network, client.registration = network, digest
        client.save()
        audit_client(None, "oauth.client_register", client, network=network)
    return client, secret


def create_client(metadata: Metadata, *, actor: Any) -> tuple[Client, str]:
    """Create a client for an administrator (AUTH-46).

    Return it and its secret, which is stored only as a hash.
    """
    secret = "" if metadata.auth_method == "none" else secrets.new(secrets.SECRET)
    with transaction.atomic():
        client = new_client(metadata, Client.RegistrationSource.MANUAL, secret)
        client.entered_by = stored_user(actor)
        client.save()
        audit_client(actor, CLIENT_ENTERED, client)
    return client, secret


def new_client(metadata: Metadata, source: str, secret: str = "", client_id: str = "") -> Client:
    """Build a client without saving it."""
    client = Client(
        name=metadata.name,
        redirect_uris=" ".join(metadata.redirect_uris),
        client_type=Client.CLIENT_CONFIDENTIAL if secret else Client.CLIENT_PUBLIC,
        authorization_grant_type=Client.GRANT_AUTHORIZATION_CODE,
        client_secret=secrets.digest(secret) if secret else "",
        hash_client_secret=False,  # The secret is already hashed. A fast hash is enough for 256 random bits.
        token_auth_method=metadata.auth_method,
        registration_source=source,
    )
    if client_id:
        client.client_id = client_id
    return client


def answer(client: Client, secret: str, redirect_uris: Iterable[str]) -> dict[str, Any]:
    """Build the registration response, which contains all stored metadata (RFC 7591 section 3.2.1).

    ``redirect_uris`` are those of the current request, because an earlier registration may have used other
    loopback ports.
    """
    information = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created.timestamp()),
        "client_name": client.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": client.token_auth_method,
    }
    return {**information, "client_secret": secret, "client_secret_expires_at": 0} if secret else information
