"""The Django app of the authorization server. It registers its access tokens with the resource server."""

from __future__ import annotations

from django.apps import AppConfig


class OAuthConfig(AppConfig):
    """The embedded authorization server."""

    name = "mcp_app.oauth"
    label = "mcp_oauth"
    verbose_name = "OAuth"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mcp_app.auth import makers, tokens
        from mcp_app.oauth import people  # noqa: F401 - importing connects the signals
        from mcp_app.oauth.connections import find_principal, stopped
        from mcp_app.oauth.connections import makers as makers_of_connections
        from mcp_app.oauth.secrets import ACCESS

        tokens.register(ACCESS, find_principal)
        tokens.register_connections(stopped)
        makers.register_clients(makers_of_connections)
