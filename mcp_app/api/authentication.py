"""Authentication of API requests, by an API key or OAuth token as for ``/mcp``, or by a login to this site.

``request.auth`` is the principal.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from mcp_app.api.throttling import count_address
from mcp_app.auth.api_keys import find_api_key, principal_of_key, principal_of_user, record_api_key_use
from mcp_app.auth.authentication import BAD_CREDENTIAL, readable
from mcp_app.auth.challenges import insufficient, worded
from mcp_app.auth.own_addresses import metadata_url, requested
from mcp_app.auth.principal import Principal
from mcp_app.auth.tokens import kind_of
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.scopes import ADMIN


class ApiKeyAuthentication(BaseAuthentication):
    """Authentication by ``Authorization: Bearer <API key or OAuth token>``.

    If the header is present, no other authentication is tried.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the user and the principal of the credential, or None if there is no Authorization header.

        Raises AuthenticationFailed for an invalid credential (S1).
        """
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        # Every invalid credential takes one look-up and gets the same response.
        token = readable(header)
        if (find := kind_of(token)) is not None:
            principal = find(token)
            if principal is not None and not principal.bench and principal.path in ("", ENDPOINT):
                return _of_token(request, principal)
            token = ""
        key = find_api_key(token)
        if key is None:
            count_address(request)
            raise AuthenticationFailed(BAD_CREDENTIAL)
        record_api_key_use(key)
        principal = principal_of_key(key)
        _check_scope(request, principal)
        return key.user, principal

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge for a 401 response."""
        metadata = _metadata(request)
        error = "invalid_token" if "HTTP_AUTHORIZATION" in request.META else ""
        return worded(error, realm="api", metadata=metadata, scope=requested((ADMIN,)) if metadata else "")


class InsufficientScope(PermissionDenied):
    """A 403 response whose challenge contains the scope that the client should request."""

    def __init__(self, principal: Principal, metadata: str) -> None:
        refused = insufficient(principal, ADMIN, metadata)
        super().__init__(refused.message)
        self.auth_header = refused.challenge


def _of_token(request: Request, principal: Principal) -> tuple[Any, Any]:
    """Return the user and the principal of an OAuth token."""
    _check_scope(request, principal)
    return get_user_model()._default_manager.get(pk=str(principal.user_id)), principal


def _check_scope(request: Request, principal: Principal) -> None:
    """Raise InsufficientScope if the principal does not have the admin scope.

    This check is necessary because views check only the permissions of the user, which the scopes do not
    limit.
    """
    if principal.scopes is not None and ADMIN not in principal.scopes:
        raise InsufficientScope(principal, _metadata(request))


def _metadata(request: Request) -> str:
    return metadata_url(request.META.get("HTTP_HOST", ""), ENDPOINT)


class BrowserAuthentication(SessionAuthentication):
    """Authentication by a login to the admin. Unsafe methods require the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the user and the user's principal, or None if there is no login.

        Raises PermissionDenied if the CSRF token is missing or wrong.
        """
        found = super().authenticate(request)
        return None if found is None else (found[0], principal_of_user(found[0]))
