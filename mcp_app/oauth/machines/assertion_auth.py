"""Authentication of machines by assertions. The parameters follow RFC 7521 section 4.2."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from oauthlib.oauth2.rfc6749 import errors

from mcp_app.auth.identity_provider.verification import TokenRefused, named_key
from mcp_app.auth.own_addresses import origin
from mcp_app.models import audit
from mcp_app.oauth.machines import assertions, public_keys
from mcp_app.oauth.models import Client
from mcp_app.protocol.rate_window import RateWindow

PARAMETERS: Final = frozenset({"client_assertion", "client_assertion_type"})
# Limits the audit entries for refused logins, so that repeated attempts cannot fill the audit trail.
_audited = RateWindow()

log = logging.getLogger("mcp.auth")


def assertion_of(request: Any) -> str | None:
    """Return the assertion in a request, or None if the request has none.

    Raises InvalidRequestError for contradictory or repeated parameters.
    """
    said = [(name, value) for name, value in request.decoded_body or () if name in PARAMETERS]
    if not said:
        return None
    values = dict(said)
    if len(said) != 2 or len(values) != 2:
        words = "client_assertion and client_assertion_type belong together, once each."
        raise errors.InvalidRequestError(description=words, request=request)
    if values["client_assertion_type"] != assertions.TYPE:
        words = f"The client_assertion_type must be {assertions.TYPE}."
        raise errors.InvalidRequestError(description=words, request=request)
    others = {name for name, _ in request.decoded_body}
    if "client_secret" in others or request.headers.get("Authorization"):
        words = "A client must authenticate in one way only."
        raise errors.InvalidRequestError(description=words, request=request)
    return str(values["client_assertion"])


def fetch_keys(form: Any) -> None:
    """Fetch the keys needed to check the assertion in a form, if there is one.

    Invalid assertions are ignored here, because ``authenticate`` refuses them later. Raises Unavailable if
    the fetch takes too long.
    """
    assertion = form.get("client_assertion", "")
    if not assertion:
        return
    try:
        kid, _ = named_key(assertion)
        client = _signing(assertions.claimed_client(assertion))
    except TokenRefused:
        return
    if client is not None:
        public_keys.bring(client, kid)


def authenticate(request: Any, assertion: str) -> bool:
    """Return True if the assertion is valid, and set its machine as the client of the request.

    Raises Unavailable if the machine's keys cannot be fetched.
    """
    try:
        client_id = assertions.claimed_client(assertion)
        client = _signing(client_id)
        if client is None:
            raise TokenRefused("there is no such machine")
        if request.client_id not in (None, client_id):
            record_refusal(client, "its client_id is another's")
            return False
    except TokenRefused as refused:
        log.info("Assertion refused: %s", refused)
        return False
    try:
        assertions.accept(client, assertion, _audiences(request))
    except TokenRefused as refused:
        record_refusal(client, str(refused))
        return False
    request.client, request.client_id = client, client_id
    return True


def record_refusal(client: Client, reason: str) -> None:
    """Record a failed machine login in the log and the audit trail, at most once a minute per machine."""
    if _audited.hit(str(client.pk), time.monotonic())[0] > 1:
        return
    log.warning("Machine %s refused: %s", client.client_id, reason)
    audit(
        actor=None,
        action="oauth.machine_refused",
        object_kind="oauth_client",
        object_key=client.client_id,
        detail={"name": client.name, "reason": reason},
    )


def _signing(client_id: str) -> Client | None:
    if len(client_id) > 255 or not client_id.isascii() or not client_id.isprintable():
        return None
    client: Client | None = Client.objects.filter(
        client_id=client_id, token_auth_method=assertions.METHOD, disabled_at=None
    ).first()
    return client if client is not None and client.is_machine else None


def _audiences(request: Any) -> frozenset[str]:
    """Return the accepted audiences: the issuer and the token endpoint.

    Each is accepted with the configured host and with the host of the request.
    """
    bases = {origin(), origin(request.headers.get("HTTP_HOST", ""))}
    return frozenset(name for base in bases for name in (base, f"{base}/oauth/token"))
