"""Error descriptions that state problem and remedy. They replace missing or short ones of the library."""

from __future__ import annotations

from typing import Final

from mcp_app.auth.own_addresses import resource

AGAIN: Final = "Start again in your client."
_READD: Final = "Remove the server from your client, and add it again."

# Replacements for descriptions of the library.
_INSTEAD: Final = {
    "Mismatching redirect URI.": "The client did not register this redirect address, or "
    f"redirect_uri is not the one of the authorization request. {_READD}",
    "Invalid redirect URI.": "The app sent a redirect address that cannot be used. "
    "redirect_uri must be an absolute https or loopback address without a fragment.",
    "Missing redirect URI.": f"The app sent an incomplete request (no redirect_uri). {_READD}",
    "Invalid client_id parameter value.": f"The client is unknown, or was deleted. {_READD}",
    "Missing client_id parameter.": f"The app sent an incomplete request (no client_id). {_READD}",
    "Missing response_type parameter.": "The request has no response_type. Send response_type=code.",
    "Missing code parameter.": "The request has no code. Send the code of the authorization response.",
    "Missing token parameter.": "The request has no token. Send the token to revoke as token.",
    "Missing refresh token parameter.": "The request has no refresh_token. Send the latest one.",
    "Code challenge required.": "The request has no code_challenge. Use PKCE with S256.",
    "Code verifier required.": "The request has no code_verifier. Send the one behind the code_challenge.",
    "Transform algorithm not supported.": "This code_challenge_method is not supported. Send S256.",
    "Unable to parse query string": "The query cannot be read. Percent-encode it.",
    "URL query parameters are not allowed": "Parameters in the address are not read. Send them in the body.",
    "Request is missing grant type.": "The request has no grant_type. Send authorization_code, for example.",
}
# Descriptions for errors to which the library gives none, by error code and grant type ("" means any grant).
_OTHERWISE: Final = {
    (
        "invalid_grant",
        "authorization_code",
    ): "The code is unknown, used, older than 60 seconds, or of another client, "
    "or code_verifier is not the one of this login. Send each code once and at once, or log in again.",
    (
        "invalid_grant",
        "refresh_token",
    ): "The refresh token is unknown, expired, was used before, or its connection was ended. Log in again.",
    ("invalid_grant", ""): "The authorization is invalid or has expired. Log in again.",
    (
        "invalid_client",
        "",
    ): "The client is unknown or disabled, or its method, secret or key is wrong. "
    "Register again, or ask an administrator to check the client.",
    (
        "unauthorized_client",
        "",
    ): "This client may not use this grant type. Clients with a login use response_type=code, then "
    "authorization_code and refresh_token. Machines added by an administrator use client_credentials.",
    ("unsupported_grant_type", ""): "This grant_type is missing or not supported. Use authorization_code, "
    "refresh_token or client_credentials.",
    ("unsupported_response_type", ""): "This response_type is not supported. Use response_type=code.",
    ("unsupported_token_type", ""): "Tokens of this type cannot be revoked. Send an access or refresh token.",
    (
        "invalid_scope",
        "refresh_token",
    ): "The user allowed none of these scopes. Omit scope, or log in again and request them.",
    (
        "invalid_scope",
        "client_credentials",
    ): "This machine may use none of these scopes. Omit scope, or ask an administrator to add them.",
    ("invalid_scope", ""): "None of these scopes can be granted. Omit scope.",
    ("invalid_request", ""): f"The request is malformed. {AGAIN}",
    ("access_denied", ""): "The user denied the request. Try again if that was a mistake.",
    (
        "server_error",
        "",
    ): "The server could not process the request. Try again, or ask an administrator to check the log.",
}


def explained(error: str, description: str | None, grant: str = "") -> str:
    """Return the description of an error: problem and remedy.

    The text contains only characters that RFC 6749 allows.
    """
    said = description or ""
    if said.startswith("Duplicate "):
        return f"{said} Send it once."
    if said:
        return _INSTEAD.get(said, said)
    return _OTHERWISE.get((error, grant)) or _OTHERWISE.get((error, "")) or _OTHERWISE["invalid_request", ""]


def wrong_target() -> str:
    """Return the error description for a request whose resource is not this server."""
    return f"The resource must be the address of this MCP server: {resource()}"
