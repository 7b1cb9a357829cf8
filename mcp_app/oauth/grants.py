"""The binding of the OAuth library to this app's models: client checks, scopes, codes and tokens.

The library implements the rules of OAuth (parameters, PKCE, errors). This app stores all rows.
"""

from __future__ import annotations

import re
import secrets as system_secrets
from typing import Any, Final
from urllib.parse import urlsplit

from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2 import WebApplicationServer
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.grant_types import ClientCredentialsGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256

from mcp_app import conf
from mcp_app.auth.own_addresses import canonical, resource
from mcp_app.database import clock
from mcp_app.oauth import connections, documents, error_descriptions, secrets
from mcp_app.oauth.machines import assertion_auth, tokens
from mcp_app.oauth.models import Client
from mcp_app.oauth.secrets import Pair
from mcp_app.protocol import scopes

CLIENT_ID: Final = re.compile(r"[\x21-\x7e]{1,255}")
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# Scopes that clients send to request a refresh token or user data. They are ignored, because every client of
# people gets a refresh token.
_IGNORED_SCOPES: Final = frozenset({"offline_access", "openid", "profile", "email"})


def find_client(client_id: str) -> Client | None:
    """Return the client with this id.

    Returns None if the client is unknown or disabled, or if the host of its document is no longer allowed.
    """
    if not CLIENT_ID.fullmatch(client_id or ""):
        return None
    client = Client.objects.filter(client_id=client_id).first()
    if client is None or client.disabled_at is not None:
        return None
    has_document = client.registration_source == Client.RegistrationSource.CIMD
    return None if has_document and not documents.is_let(urlsplit(client_id).hostname or "") else client


def resource_of(asked: list[str]) -> str:
    """Return the single resource of a request. It defaults to the resource of the default server (AUTH-35).

    Raises CustomOAuth2Error (``invalid_target``) for several resources or a resource that is not this server.
    """
    named = {canonical(each) for each in asked} or {resource()}
    if len(named) != 1 or "" in named:
        raise errors.CustomOAuth2Error(error="invalid_target", description=error_descriptions.wrong_target())
    return named.pop()


class GrantValidator(OAuth2Validator):
    """The library's validator, which reads and writes this app's models."""

    def _load_application(self, client_id: str, request: Any) -> Client | None:
        # find_client never uses the network. This matters because the token endpoint runs in a transaction.
        if not isinstance(request.client, Client) or request.client.client_id != client_id:
            request.client = find_client(client_id)
        if request.client is not None and request.client.is_machine:
            request.machine = request.client
        return request.client

    def _check_secret(self, provided_secret: str, stored_secret: str) -> bool:
        if not stored_secret:
            return False
        return system_secrets.compare_digest(secrets.digest(provided_secret), stored_secret)

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        if assertion_auth.assertion_of(request) is not None:
            return True
        return bool(super().client_authentication_required(request, *args, **kwargs))

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        assertion = assertion_auth.assertion_of(request)
        if assertion is not None:
            return assertion_auth.authenticate(request, assertion)
        if super().authenticate_client(request, *args, **kwargs):
            return True
        machine = getattr(request, "machine", None)
        if machine is not None:
            assertion_auth.record_refusal(machine, "its secret is wrong or missing")
        return False

    def is_pkce_required(self, client_id: str, request: Any) -> bool:
        return True

    def validate_response_type(self, client_id: str, response_type: str, *_: Any, **__: Any) -> bool:
        return response_type == "code"

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        if client.is_machine:
            user = client.service_user
            return grant_type == "client_credentials" and user is not None and user.is_active
        return grant_type in ("authorization_code", "refresh_token")

    def get_default_scopes(self, client_id: str, request: Any, *_: Any, **__: Any) -> list[str]:
        return request.client.scope.split() if request.client.is_machine else list(scopes.BASIC)

    def validate_scopes(
        self, client_id: str, asked: list[str], client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        """Reduce the list ``asked`` to scopes that may be granted. Return True if any remain.

        A client of people that requests no known scope gets the basic scopes: RFC 6749 section 3.3 lets a
        server ignore scopes, and some clients send their own scopes (``claudeai``). The consent page and
        the token response list the granted scopes. A machine gets only the scopes that an administrator chose
        for it, and requests with unknown scopes only are refused.
        """
        known = scopes.in_order(asked).split()
        if not known and (not client.is_machine or set(asked) <= _IGNORED_SCOPES):
            known = self.get_default_scopes(client_id, request)
        if client.is_machine:
            known = [scope for scope in known if scope in scopes.widened(client.scope.split())]
        asked[:] = known
        return bool(known)

    # Authorization codes.

    def validate_code(
        self, client_id: str, code: str, client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        row = connections.find_code(code, client)
        if row is None:
            return False
        _check_target(request, row.connection.resource)
        if not VERIFIER.fullmatch(request.code_verifier or ""):
            words = "The code_verifier is missing or malformed. It has 43 to 128 letters, digits and -._~"
            raise errors.InvalidGrantError(description=words, request=request)
        request.code_row, request.user = row, row.connection.user
        request.scopes = row.connection.scope.split()
        return True

    def get_code_challenge(self, code: str, request: Any) -> str:
        return str(request.code_row.code_challenge)

    def get_code_challenge_method(self, code: str, request: Any) -> str:
        return "S256"

    def get_default_redirect_uri(self, client_id: str, request: Any, *_: Any, **__: Any) -> str:
        row = getattr(request, "code_row", None)
        return str(row.redirect_uri if row is not None else request.client.default_redirect_uri)

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        return bool(request.code_row.redirect_uri == redirect_uri)

    def save_authorization_code(
        self, client_id: str, code: dict[str, str], request: Any, *_: Any, **__: Any
    ) -> None:
        connections.allow(
            connections.Consent(
                client=request.client,
                user=request.user,
                resource=request.resource,
                scope=scopes.in_order(request.scopes),
                redirect_uri=request.redirect_uri,
                code_challenge=request.code_challenge,
            ),
            code["code"],
        )

    def invalidate_authorization_code(
        self, client_id: str, code: str, request: Any, *_: Any, **__: Any
    ) -> None:
        """Do nothing, because ``save_bearer_token`` marks the code as used."""

    # Access and refresh tokens.

    def validate_refresh_token(
        self, refresh_token: str, client: Client, request: Any, *_: Any, **__: Any
    ) -> bool:
        found = connections.find_refresh(refresh_token, client)
        if found is None:
            return False
        request.refresh_row, request.repeated = found
        connection = request.refresh_row.connection
        _check_target(request, connection.resource)
        request.user, request.presented = connection.user, refresh_token
        return True

    def get_original_scopes(self, refresh_token: str, request: Any, *_: Any, **__: Any) -> list[str]:
        return list(request.refresh_row.connection.scope.split())

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *_: Any, **__: Any
    ) -> bool:
        """Reduce the requested scopes to the granted scopes. Return True if any remain.

        Some clients repeat the scopes of their authorization request when they refresh.
        """
        granted = self.get_original_scopes(refresh_token, request)
        known = scopes.in_order(request_scopes).split()
        request_scopes[:] = [scope for scope in known or granted if scope in granted]
        return bool(request_scopes)

    def rotate_refresh_token(self, request: Any) -> bool:
        return True

    def save_bearer_token(self, token: dict[str, Any], request: Any, *_: Any, **__: Any) -> None:
        repeated = _repeated(request)
        if repeated is not None:
            token["scope"] = repeated.scope
            return
        if request.grant_type == "client_credentials":
            given = token["access_token"], token["scope"], token["expires_in"]
            tokens.give(request.client, request.resource, *given)
            return
        pair = Pair(
            token["access_token"],
            token["refresh_token"],
            token["scope"],
            clock.timestamp() + token["expires_in"],
        )
        if request.grant_type == "refresh_token":
            connections.refresh(request.refresh_row, request.presented, pair)
        else:
            connections.exchange(request.code_row, pair)

    def revoke_token(self, token: str, token_type_hint: str, request: Any, *_: Any, **__: Any) -> None:
        if request.client.is_machine:
            tokens.revoke(token, request.client)
        else:
            connections.end_by_token(token, request.client)


def _asked_resources(request: Any) -> list[str]:
    return [value for name, value in request.decoded_body or () if name == "resource"]


def _set_target(request: Any) -> None:
    """Set the resource of a machine's token. Every token request of a machine must send it (AUTH-51)."""
    asked = _asked_resources(request)
    if not asked:
        words = f"The request names no resource. Send resource={resource()}"
        raise errors.CustomOAuth2Error(error="invalid_target", description=words)
    request.resource = resource_of(asked)


def _check_target(request: Any, granted: str) -> None:
    asked = _asked_resources(request)
    if asked and resource_of(asked) != granted:
        words = f"The authorization is for another resource. Send resource={granted}, or log in again."
        raise errors.CustomOAuth2Error(error="invalid_target", description=words)


def _repeated(request: Any) -> Pair | None:
    return getattr(request, "repeated", None)


def _access_token(request: Any) -> str:
    repeated = _repeated(request)
    return repeated.access if repeated else secrets.new(secrets.ACCESS)


def _refresh_token(request: Any) -> str:
    repeated = _repeated(request)
    return repeated.refresh if repeated else secrets.new(secrets.REFRESH)


def _expires_in(request: Any) -> int:
    repeated = _repeated(request)
    if repeated is not None:
        return max(int(repeated.ends - clock.timestamp()), 0)
    if request.grant_type == "client_credentials":
        return conf.get().oauth_token_seconds
    row = getattr(request, "refresh_row", None) or request.code_row
    left = row.connection.ends_at.timestamp() - clock.timestamp()
    return int(min(conf.get().oauth_token_seconds, left))


class GrantServer(WebApplicationServer):
    """The library's server, which issues this app's tokens. S256 is the only PKCE method."""

    def __init__(self, validator: GrantValidator) -> None:
        super().__init__(validator, _access_token, _expires_in, _refresh_token)
        self.auth_grant._code_challenge_methods = {"S256": code_challenge_method_s256}
        self.auth_grant.create_authorization_code = _code
        self._grant_types["client_credentials"] = ClientCredentialsGrant(validator, post_token=[_set_target])


def _code(request: Any) -> dict[str, str]:
    code = {"code": secrets.new(secrets.CODE)}
    return {**code, "state": request.state} if request.state else code


class Core(OAuthLibCore):
    """The adapter that translates Django requests for the library."""

    def extract_body(self, request: Any) -> list[tuple[str, str]]:
        """Return all form values, including repeated parameters.

        The grants decide which parameters may be repeated.
        """
        return [(name, value) for name, values in request.POST.lists() for value in values]


core: Final = Core(GrantServer(GrantValidator()))
