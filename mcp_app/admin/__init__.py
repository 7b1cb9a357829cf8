"""What administrators see; every write goes through the services of catalogue, auth and sessions."""

from mcp_app.admin import access, audit, catalogue, people, sessions

__all__ = ["access", "audit", "catalogue", "people", "sessions"]
