"""The URLs of the authorization server. The metadata lists them, so they must not change."""

from __future__ import annotations

from django.urls import path, register_converter

from mcp_app.auth.own_addresses import SERVER_METADATA, server_at
from mcp_app.oauth import consent, endpoints, metadata, pages
from mcp_app.optional_parts import COMPANY_LOGIN, SECOND_FACTOR

app_name = "mcp_oauth"


class Door:
    """A path converter that matches only the endpoints of this installation's servers."""

    regex = "[a-z]+(?:/[a-zA-Z0-9_-]+)?"

    def to_python(self, value: str) -> str:
        """Return the path. Raises ValueError, which makes Django try the next pattern."""
        if server_at(f"/{value}").removed:
            raise ValueError(value)
        return value

    def to_url(self, value: str) -> str:
        """Return the path."""
        return value


register_converter(Door, "mcp_door")

urlpatterns = [
    path(".well-known/oauth-authorization-server", metadata.server_metadata, name="metadata"),
    path(".well-known/openid-configuration", metadata.server_metadata),
    # Some clients use the endpoint as the issuer and insert the well-known path before or after the
    # endpoint's path.
    *(
        path(spelled.removeprefix("/"), metadata.server_metadata)
        for known in SERVER_METADATA
        for spelled in (f"{known}/<mcp_door:door>", f"<mcp_door:door>{known}")
    ),
    path("oauth/authorize", consent.authorize, name="authorize"),
    path("oauth/token", endpoints.token, name="token"),
    path("oauth/register", endpoints.register, name="register"),
    path("oauth/revoke", endpoints.revoke, name="revoke"),
    path("oauth/apps", pages.apps, name="apps"),
    path("accounts/login/", pages.Login.as_view(), name="login"),
    path("accounts/logout/", pages.Logout.as_view(), name="logout"),
]
if COMPANY_LOGIN.is_there():
    from mcp_app.oauth.company import views as company

    urlpatterns += [
        path("accounts/company/login/", company.Leave.as_view(), name="company_login"),
        path("accounts/company/callback/", company.come_back, name="company_callback"),
    ]
if SECOND_FACTOR.is_there():
    from mcp_app.oauth.second_factor import pages as second_factor

    urlpatterns += [
        path("accounts/second-factor/", second_factor.own, name="second_factor"),
        path("accounts/second-factor/code/", second_factor.code, name="second_factor_code"),
        path("accounts/second-factor/set-up/", second_factor.set_up, name="second_factor_set_up"),
    ]
