"""Who asks: an API key as for /mcp, or a person logged in to this site; ``request.auth`` is the principal."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from mcp_app.api.throttling import count_address
from mcp_app.auth.bearer import BAD_CREDENTIAL, MAX_CREDENTIAL
from mcp_app.auth.services import find_api_key, note_api_key_used, principal_of_key, principal_of_user

CHALLENGE = 'Bearer realm="api"'
BAD_CHALLENGE = f'{CHALLENGE}, error="invalid_token"'


class ApiKeyAuthentication(BaseAuthentication):
    """``Authorization: Bearer <API key>``. With any such header nothing else is looked at."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """The key's user and principal, None without the header; raises AuthenticationFailed (S1)."""
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, token = header[: MAX_CREDENTIAL + 1].partition(" ")
        # Whatever is wrong costs the same look-up and gets the same answer.
        known = scheme.lower() == "bearer" and len(header) <= MAX_CREDENTIAL
        key = find_api_key(token.strip() if known else "")
        if key is None:
            count_address(request)
            raise AuthenticationFailed(BAD_CREDENTIAL)
        note_api_key_used(key)
        return key.user, principal_of_key(key)

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        return BAD_CHALLENGE if "HTTP_AUTHORIZATION" in request.META else CHALLENGE


class BrowserAuthentication(SessionAuthentication):
    """The login of the admin; what changes anything needs the CSRF token too."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """The person and their principal, None when nobody is logged in; raises PermissionDenied (CSRF)."""
        found = super().authenticate(request)
        return None if found is None else (found[0], principal_of_user(found[0]))
