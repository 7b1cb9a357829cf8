"""The endpoints called by clients: token, register, revoke. Errors follow RFC 6749, 7009 and 7591."""

from __future__ import annotations

from typing import Any

import orjson
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import OperationalError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.datastructures import MultiValueDict
from django.views.decorators.debug import sensitive_post_parameters

from mcp_app import conf
from mcp_app.metrics import tally
from mcp_app.oauth import error_descriptions, registration
from mcp_app.oauth.grants import core
from mcp_app.oauth.machines import assertion_auth
from mcp_app.oauth.metadata import for_programs
from mcp_app.oauth.registration import RegistrationRefused
from mcp_app.protocol.errors import TooManyRequests, Unavailable
from mcp_app.protocol.messages.methods import OTHER

MAX_FORM = 16 * 1024
FORM = "application/x-www-form-urlencoded"
GRANTS = ("authorization_code", "refresh_token", "client_credentials")
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


@for_programs("POST")
@sensitive_post_parameters()
def token(request: HttpRequest) -> HttpResponse:
    """Exchange a code or a refresh token for tokens.

    Each request is one transaction with row locks, so concurrent requests with the same token run one after
    the other.
    """
    response = _asked(request, core.create_token_response)
    tally.note("oauth_token", f"{_grant(request)} {_result(response)}")
    return response


@for_programs("POST")
@sensitive_post_parameters()
def revoke(request: HttpRequest) -> HttpResponse:
    """End the connection to which a token belongs. An unknown token is not an error (RFC 7009)."""
    return _asked(request, core.create_revocation_response)


@for_programs("POST")
def register(request: HttpRequest) -> HttpResponse:
    """Register a client, if registration is enabled."""
    if not conf.get().oauth_registration:
        words = "Clients cannot register themselves here. Have an administrator add the client."
        return _error("access_denied", words, 403)
    try:
        body = _body(request, registration.MAX_BODY)
        if body is None:
            raise RegistrationRefused("invalid_client_metadata", _too_large(registration.MAX_BODY), 413)
        metadata = registration.read(body)
        client, secret = registration.register(metadata, request.META.get("REMOTE_ADDR", ""))
    except RegistrationRefused as refused:
        tally.note("oauth_registration", "refused")
        response = _error(refused.code, str(refused), refused.status)
        if refused.wait:
            response["Retry-After"] = str(refused.wait)
        return response
    except OperationalError:
        return _away()
    tally.note("oauth_registration", "ok")
    client_information = registration.answer(client, secret, metadata.redirect_uris)
    return JsonResponse(client_information, status=201, headers=NO_STORE)


def _asked(request: HttpRequest, answered: Any) -> HttpResponse:
    if request.content_type != FORM:
        return _error("invalid_request", f"The body must be {FORM}.")
    body = _body(request, MAX_FORM)
    if body is None:
        return _error("invalid_request", _too_large(MAX_FORM), 413)
    if not _readable(request):
        return _error("invalid_request", "The body cannot be read. Send a form in UTF-8, without NUL.")
    try:
        assertion_auth.fetch_keys(request.POST)
        with transaction.atomic():
            _, _, body, status = answered(request)
    except OperationalError:
        return _away()
    except Unavailable as unavailable:
        return _away(unavailable.message)
    except TooManyRequests as refused:
        response = _error("temporarily_unavailable", refused.message, 429)
        response["Retry-After"] = dict(refused.headers)[b"retry-after"].decode()
        return response
    except ValueError:  # Raised by the library for a request it cannot parse.
        return _error("invalid_request", "The request cannot be read. Percent-encode its form.")
    if status >= 400:
        body = _explained(body, request.POST.get("grant_type", ""))
    basic = request.META.get("HTTP_AUTHORIZATION", "").lower().startswith("basic ")
    if status == 401 and not basic:
        status = 400  # RFC 6749 section 5.2: only requests with an Authorization header get 401.
    response = HttpResponse(body or b"", status=status, content_type="application/json", headers=NO_STORE)
    if status == 401:
        response["WWW-Authenticate"] = 'Basic realm="oauth"'
    return response


def _explained(body: str, grant: str) -> bytes:
    """Replace the description in the library's error response."""
    refusal = orjson.loads(body)
    words = error_descriptions.explained(refusal["error"], refusal.get("error_description"), grant)
    return orjson.dumps({**refusal, "error_description": words})


def _too_large(most: int) -> str:
    return f"The body is too large. Send at most {most} bytes."


def _grant(request: HttpRequest) -> str:
    named = request.POST.get("grant_type", "") if _is_form(request) else ""
    return named if named in GRANTS else OTHER


def _is_form(request: HttpRequest) -> bool:
    return request.content_type == FORM and _body(request, MAX_FORM) is not None and _readable(request)


def _result(response: HttpResponse) -> str:
    """Return "ok" or the OAuth error code of a response, as a label for the metrics."""
    if response.status_code == 200:
        return "ok"
    return str(orjson.loads(response.content or b"{}").get("error", OTHER))


def _body(request: HttpRequest, most: int) -> bytes | None:
    """Return the body, or None if it is longer than ``most`` bytes."""
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        return None if length > most or len(request.body) > most else request.body
    except (RequestDataTooBig, ValueError):
        return None


def _readable(request: HttpRequest) -> bool:
    """Return True if the form can be parsed and contains no NUL character."""
    try:
        form: MultiValueDict[str, str] = request.POST
    except (BadRequest, SuspiciousOperation, ValueError):
        return False
    return not any("\x00" in value for values in form.lists() for value in (values[0], *values[1]))


def _error(code: str, description: str, status: int = 400) -> HttpResponse:
    body = orjson.dumps({"error": code, "error_description": description})
    return HttpResponse(body, status=status, content_type="application/json", headers=NO_STORE)


def _away(words: str = "The database is busy. Try again in a moment.") -> HttpResponse:
    response = _error("temporarily_unavailable", words, 503)
    response["Retry-After"] = "1"
    return response
