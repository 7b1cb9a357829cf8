"""Judges responses of the authorization server to requests without any entitlement."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from tests.fuzz.cases import Case
from tests.fuzz.exchange import Reply
from tests.fuzz.oauth.cases import Known

# Without a scheme and a host, as browsers read it: the rest is an address of this server.
OWN = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2})[\x21-\x7e]+")
# Addresses that may be registered, determined without the server's own code.
SAFE = re.compile(
    r"(https://[a-z0-9.-]+|http://(127\.0\.0\.1|\[::1\]|localhost))(:0*\d{1,5})?([/?][^\s#\\]*)?"
    r"|cursor://anysphere\.cursor-mcp/oauth/callback",
    re.IGNORECASE,
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
STATUSES = {200, 201, 204, 302, 400, 401, 403, 404, 405, 413, 429}
SECRETS = re.compile(r"mcp(?:ac|at|rt|cs)_[A-Za-z0-9_-]{43}")
HREF = re.compile(r'href="([^"]*)"')
ERRORS = {
    "access_denied", "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client",
    "unsupported_grant_type", "unsupported_token_type", "invalid_scope", "invalid_target",
    "invalid_redirect_uri", "invalid_client_metadata", "temporarily_unavailable",
}  # fmt: skip


def problem(known: Known, case: Case, reply: Reply) -> str | None:
    """Return the problem of a response, or None."""
    if reply.status not in STATUSES:
        return f"undocumented status {reply.status}"
    body, to = reply.body.decode(errors="replace"), reply.headers.get("location", "")
    if "Traceback" in body or 'File "' in body:
        return "internals in the body"
    # A response may repeat values of the request: its state, or the address after the login.
    given = set(SECRETS.findall(body + to)) - set(SECRETS.findall(unquote(case.data.decode("latin-1"))))
    if reply.status == 201:
        return _registered(json.loads(body), given)
    if given or '"access_token"' in body or "code" in parse_qs(urlsplit(to).query):
        return "a secret was given"
    if to and not leads_home(known, to):
        return f"sent to {to!r}"
    if reply.headers.get("content-type", "").startswith("text/html"):
        strange = [link for link in map(html.unescape, HREF.findall(body)) if not leads_home(known, link)]
        return f"a link to {strange}" if strange else None
    return _error(case, reply, body)


def leads_home(known: Known, to: str) -> bool:
    """Return True for an address of this server or of a registered client."""
    if OWN.fullmatch(to):
        return True
    registered = (uri for uris in known.addresses.values() for uri in uris)
    return any(_same(urlsplit(uri), to) for uri in registered)


def _same(uri: SplitResult, to: str) -> bool:
    other = urlsplit(to)
    return (
        (uri.scheme, uri.hostname, uri.path) == (other.scheme, other.hostname, other.path)
        and "@" not in other.netloc
        and not other.fragment
        and other.query.startswith(uri.query)
        and (uri.port == other.port or (uri.scheme == "http" and uri.hostname in LOOPBACK))
    )


def _registered(told: dict[str, object], given: set[str]) -> str | None:
    uris = told["redirect_uris"]
    assert isinstance(uris, list)
    unsafe = [uri for uri in uris if not SAFE.fullmatch(uri)]
    if unsafe or not uris:
        return f"registered {unsafe}"
    return "a secret was given" if given - {told.get("client_secret")} else None


def _error(case: Case, reply: Reply, body: str) -> str | None:
    """Check that clients can read errors as JSON; a successful revocation has no body."""
    if case.kind not in ("token", "revoke", "register"):
        return None
    if reply.status < 400:
        return "a token request succeeded" if case.kind == "token" else None
    try:
        return None if json.loads(body)["error"] in ERRORS else "an undocumented error"
    except (ValueError, KeyError, TypeError):
        return "an error without its name"
