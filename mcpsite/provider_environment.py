"""Environment variables for an external identity provider. This module does not import Django."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

REMEDIES = {
    "API_KEYS": "on or off",
    "OAUTH_ISSUER": "the issuer of your identity provider, for example https://login.example.com/realms/main",
    "OAUTH_AUDIENCE": "what tokens for this server have as their audience, separated by commas",
    "OAUTH_JWKS_URL": "the address of the provider's keys, or leave it unset to have it looked up",
    "OAUTH_SCOPES": 'a JSON object, for example {"api://mcp/use": "mcp mcp:tools"}',
    "OAUTH_CREATE_USERS": "on or off",
    "OAUTH_LINK_USERS": "on or off",
    "OAUTH_USERNAME_CLAIM": "the name of a claim, for example preferred_username",
    "OAUTH_GROUPS_CLAIM": "the name of a claim, for example groups or realm_access.roles",
    "OAUTH_GROUPS": 'a JSON object, for example {"mcp-operators": "MCP operator"}',
    "LOGIN_ISSUER": "the issuer of the provider people log in by, for example https://login.example.com/realms/main",
    "LOGIN_CLIENT_ID": "the client id that the provider gave this server",
    "LOGIN_CLIENT_SECRET": "the secret that the provider gave with it",
    "LOGIN_NAME": "what people call the provider, for example Example Inc.",
    "LOGIN_SCOPES": "scopes separated by commas, for example openid,profile,email,groups",
    "SECOND_FACTOR": "optional, staff or everybody",
    "EGRESS_ALLOW": "networks separated by commas, for example 10.0.0.0/8",
    "EGRESS_PROXY": "the address of an HTTP proxy, for example http://proxy.example.com:3128",
}

Names = Annotated[tuple[str, ...], NoDecode]
Mapping = Annotated[dict[str, str], NoDecode]


class ProviderEnvironment(BaseSettings):
    """The settings for identity providers: tokens, logins, users and network access."""

    api_keys: bool = True
    oauth_issuer: str = ""
    oauth_audience: Names = ()
    oauth_jwks_url: str = ""
    oauth_scopes: Mapping = {}
    oauth_create_users: bool = True
    oauth_link_users: bool = False
    oauth_username_claim: str = "preferred_username"
    oauth_groups_claim: str = "groups"
    oauth_groups: Mapping = {}
    login_issuer: str = ""
    login_client_id: str = ""
    login_client_secret: str = Field("", repr=False)
    login_name: str = ""
    login_scopes: Names = ("openid", "profile", "email")
    second_factor: Literal["optional", "staff", "everybody"] = "optional"
    egress_allow: Names = ()
    egress_proxy: str = Field("", repr=False)

    @field_validator("oauth_scopes", "oauth_groups", mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            entries = json.loads(value)
        except (ValueError, RecursionError):
            entries = None
        if not isinstance(entries, dict) or not all(isinstance(each, str) for each in entries.values()):
            raise ValueError("is not a JSON object with string values")
        return entries

    @field_validator("oauth_audience", "egress_allow", "login_scopes", mode="before")
    @classmethod
    def _parts(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("oauth_issuer", "oauth_jwks_url", "login_issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if value and not local and parts.scheme != "https":
            raise ValueError(f"is {value!r}, which is not an https address")
        return value

    @field_validator("egress_allow")
    @classmethod
    def _reachable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise ValueError(f"has {network!r}, which is neither an address nor a network") from None
        return value

    @field_validator("egress_proxy")
    @classmethod
    def _proxy(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # An invalid port or bracketed address.
            good = False
        if value and (not good or parts.path not in ("", "/") or parts.query or parts.fragment):
            raise ValueError("is not the address of a proxy")
        return value
