"""What administrators see; every write goes through the services of the packages."""

from mcp_app.admin import access, audit, calls, catalogue, drafts, people, sessions

__all__ = ["access", "audit", "calls", "catalogue", "drafts", "people", "sessions"]
