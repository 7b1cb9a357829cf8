"""What administrators see; every write goes through the services of the packages."""

from django.apps import apps

from mcp_app.admin import access, approvals, audit, calls, catalogue, doctor, drafts, people, sessions

if apps.is_installed("mcp_app.oauth"):
    from mcp_app.admin import oauth  # noqa: F401 - importing registers

__all__ = ["access", "approvals", "audit", "calls", "catalogue", "doctor", "drafts", "people", "sessions"]
