"""The authorization endpoint: the client's request, the consent page and the redirect to the client.

The browser is redirected to the client's address only after client and address have been verified (AUTH-39).
The grant covers exactly the displayed request. The request is stored in the session, not in the form, for one
use within ten minutes (AUTH-40).
"""

from __future__ import annotations

import secrets as system_secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauthlib.oauth2 import AccessDeniedError, OAuth2Error

from mcp_app import conf
from mcp_app.auth.own_addresses import path_of, resource
from mcp_app.catalogue.reach import reach_of
from mcp_app.database import clock
from mcp_app.metrics import tally
from mcp_app.oauth import documents, error_descriptions, redirects, single_use
from mcp_app.oauth.connections import audit_client
from mcp_app.oauth.documents import DocumentRefused
from mcp_app.oauth.grants import CHALLENGE, CLIENT_ID, core, find_client, resource_of
from mcp_app.oauth.metadata import issuer, only_when_offered
from mcp_app.oauth.models import Client
from mcp_app.protocol import scopes

WAITING: Final = "mcp_oauth_waiting"
WAIT_SECONDS: Final = 600
MAX_WAITING: Final = 5
MAX_QUERY: Final = 8 * 1024
ANSWERED: Final = "This page was already used, or belongs to another login. Start again in your client."


class ConsentRefused(Exception):
    """An error that is shown on this server's page, because the client's redirect address is not verified."""


class SentBack(Exception):
    """An error that is returned to the client at ``redirect_uri``, its verified address."""

    def __init__(self, error: OAuth2Error, redirect_uri: str) -> None:
        super().__init__(error.description)
        self.error, self.redirect_uri = error, redirect_uri


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request."""

    client: Client
    scopes: list[str]
    credentials: dict[str, Any]

    @property
    def redirect_uri(self) -> str:
        """The verified redirect address."""
        return str(self.credentials["redirect_uri"])


@only_when_offered
@never_cache
@require_http_methods(["GET", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Show the consent page (GET) or process the decision (POST)."""
    try:
        if request.method == "POST":
            return _answered(request)
        client_id = _named(request)
        # Documents are not fetched for anonymous users, who could otherwise occupy all fetch slots.
        waits = documents.is_document(client_id) and not request.user.is_authenticated
        asked = None if waits else _read(request, client_id)
        if asked is None or not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path(), reverse("mcp_oauth:login"))
        return _shown(request, asked)
    except ConsentRefused as refused:
        return page(request, "mcp_oauth/refused.html", {"reason": str(refused)}, status=400)
    except SentBack as back:
        return _sent_back(request, back)


def page(
    request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200, to: str = ""
) -> HttpResponse:
    """Render a page of the authorization server.

    ``to`` is the external address to which the page's form may redirect.
    """
    response = render(request, template, {"server": conf.get().server.label, **context}, status=status)
    # Browsers apply form-action to the redirects after a form is submitted, too.
    target = f" {_source(to)}" if to else ""
    own = urlsplit(static("mcp_app/oauth.css")).netloc or "'self'"
    response["Content-Security-Policy"] = (
        f"default-src 'none'; style-src {own}; img-src {own}; font-src {own}; "
        "base-uri 'none'; "
        f"form-action 'self'{target}; frame-ancestors 'none'"
    )
    # With "no-referrer", browsers would send no Origin with the server's own form, and its CSRF check would
    # fail.
    response["Referrer-Policy"] = "same-origin"
    return response


def _source(uri: str) -> str:
    parts = urlsplit(uri)
    # A content security policy cannot express an IPv6 address.
    is_named = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return redirects.origin_of(uri) if is_named else f"{parts.scheme}:"


def _named(request: HttpRequest) -> str:
    """Return the client id of a request. Raises ConsentRefused if it is missing or malformed."""
    query, client_id = request.META.get("QUERY_STRING", ""), request.GET.get("client_id", "")
    if len(query) > MAX_QUERY or "%00" in query:
        raise ConsentRefused(f"The request is too long, or cannot be read. {error_descriptions.AGAIN}")
    if not CLIENT_ID.fullmatch(client_id):
        raise ConsentRefused(error_descriptions.explained("invalid_request", "Missing client_id parameter."))
    return client_id


def _read(request: HttpRequest, client_id: str) -> AuthorizationRequest:
    """Parse and check an authorization request. Raises ConsentRefused and SentBack."""
    client = _client(client_id)
    try:
        granted, credentials = core.validate_authorization_request(request)
    except FatalClientError as error:
        library = error.oauthlib_error
        raise ConsentRefused(error_descriptions.explained(library.error, library.description)) from None
    except OAuthToolkitError as error:
        raise SentBack(error.oauthlib_error, error.oauthlib_error.redirect_uri) from None
    except ValueError:
        raise ConsentRefused(f"The request cannot be read. {error_descriptions.AGAIN}") from None
    library_request = credentials.pop("request")
    kept = {name: credentials[name] for name in ("client_id", "redirect_uri", "response_type", "state")}
    kept["code_challenge"] = credentials["code_challenge"]
    kept["code_challenge_method"] = credentials["code_challenge_method"]
    try:
        if not CHALLENGE.fullmatch(kept["code_challenge"]):
            raise OAuth2Error("code_challenge must be a SHA-256 hash in base64url, 43 characters (S256).")
        kept["resource"] = resource_of(request.GET.getlist("resource"))
    except OAuth2Error as error:
        error.error = error.error or "invalid_request"
        error.state = library_request.state
        raise SentBack(error, kept["redirect_uri"]) from None
    return AuthorizationRequest(client, granted, kept)


def _client(client_id: str) -> Client:
    if documents.is_document(client_id):
        try:
            documents.find_or_fetch(client_id)
        except DocumentRefused as error:
            raise ConsentRefused(str(error)) from None
    client = find_client(client_id)
    if client is None:
        raise ConsentRefused(
            error_descriptions.explained("invalid_request", "Invalid client_id parameter value.")
        )
    return client


def _shown(request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
    waiting = {key: each for key, each in _waiting(request).items() if each["until"] > time.time()}
    while len(waiting) >= MAX_WAITING:
        waiting.pop(next(iter(waiting)))
    ticket = system_secrets.token_urlsafe(16)
    waiting[ticket] = {
        "until": time.time() + WAIT_SECONDS,
        "user": str(request.user.pk),
        "scopes": asked.scopes,
        "credentials": asked.credentials,
    }
    request.session[WAITING] = waiting
    client, path = asked.client, path_of(asked.credentials["resource"])
    own = client.redirect_uris.split()
    context = {
        "client": client,
        "client_host": urlsplit(client.client_id).hostname if documents.is_document(client.client_id) else "",
        "registered": client.registration_source == Client.RegistrationSource.MANUAL,
        "redirect": redirects.origin_of(asked.redirect_uri),
        "loopback": redirects.is_loopback(asked.redirect_uri),
        "only_loopback": all(map(redirects.is_loopback, own)),
        "scopes": [(scope, scopes.DESCRIPTIONS[scope]) for scope in asked.scopes],
        "resource": resource(request.META.get("HTTP_HOST", ""), path),
        "reach": reach_of(request.user, asked.scopes, path),
        "tools_scope": scopes.TOOLS,
        "ticket": ticket,
    }
    return page(request, "mcp_oauth/consent.html", context, to=asked.redirect_uri)


def _waiting(request: HttpRequest) -> dict[str, Any]:
    waiting = request.session.get(WAITING)
    return waiting if isinstance(waiting, dict) else {}


def _answered(request: HttpRequest) -> HttpResponse:
    """Process the user's decision. The stored request is deleted, whatever the outcome."""
    waiting, ticket = dict(_waiting(request)), request.POST.get("ticket", "")
    found = waiting.pop(ticket, None)
    request.session[WAITING] = waiting
    if not request.user.is_authenticated or found is None or found["user"] != str(request.user.pk):
        raise ConsentRefused(ANSWERED)
    if found["until"] <= time.time():
        raise ConsentRefused("This page has expired. Start again in your client.")
    # Two simultaneous submissions read the same session, so the session alone cannot prevent a second use.
    if not single_use.use(f"consent\0{ticket}", clock.utcnow() + timedelta(seconds=2 * WAIT_SECONDS)):
        raise ConsentRefused(ANSWERED)
    credentials = found["credentials"]
    client = find_client(credentials["client_id"])
    if client is None or not client.redirect_uri_allowed(credentials["redirect_uri"]):
        raise ConsentRefused("The client was changed in the meantime. Start again in your client.")
    is_allowed = request.POST.get("decision") == "allow"
    tally.note("oauth_consent", "allowed" if is_allowed else "denied")
    if not is_allowed:
        audit_client(request.user, "oauth.deny", client, scope=scopes.in_order(found["scopes"]))
        denied = AccessDeniedError(state=credentials["state"])
        return _redirected(request, credentials["redirect_uri"], _error_parameters(denied))
    try:
        url, *_ = core.create_authorization_response(request, found["scopes"], dict(credentials), allow=True)
    except OAuthToolkitError as error:
        library = error.oauthlib_error
        words = error_descriptions.explained(library.error, library.description)
        raise ConsentRefused(f"The request is no longer valid. {words} {error_descriptions.AGAIN}") from None
    return _redirected(request, url, {})


def _sent_back(request: HttpRequest, back: SentBack) -> HttpResponse:
    """Return an error to the client.

    The browser is redirected only to a trusted client or a loopback address. For any other client, a page
    shows the error and a link, because a stranger may have chosen the address.
    """
    client = find_client(request.GET.get("client_id", ""))
    error = _error_parameters(back.error)
    if client is not None and (_is_trusted(client) or redirects.is_loopback(back.redirect_uri)):
        return _redirected(request, back.redirect_uri, error)
    context = {
        "reason": f"The request of the client is invalid ({error['error']}). {error['error_description']}",
        "link": _with(back.redirect_uri, {**error, "iss": issuer(request)}),
        "redirect": redirects.origin_of(back.redirect_uri),
    }
    return page(request, "mcp_oauth/refused.html", context, status=400)


def _error_parameters(error: OAuth2Error) -> dict[str, str]:
    """Return the parameters of an error response."""
    fields = dict(error.twotuples)
    return {**fields, "error_description": error_descriptions.explained(error.error, error.description)}


def _is_trusted(client: Client) -> bool:
    """Return True if an administrator vouches for the client's addresses.

    A metadata document alone is not enough: the settings must list its host.
    """
    if client.registration_source == Client.RegistrationSource.CIMD:
        return documents.is_named(urlsplit(client.client_id).hostname or "")
    return client.verified


def _redirected(request: HttpRequest, url: str, more: dict[str, str]) -> HttpResponse:
    """Redirect to the client and add the issuer to the address (RFC 9207).

    Django's redirect class cannot be used, because it refuses the private URI schemes of desktop programs.
    """
    response = HttpResponse(status=302)
    response["Location"] = _with(url, {**more, "iss": issuer(request)})
    response["Referrer-Policy"] = "no-referrer"
    return response


def _with(url: str, parameters: dict[str, str]) -> str:
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "iss"]
    return urlunsplit(parts._replace(query=urlencode([*query, *parameters.items()])))
