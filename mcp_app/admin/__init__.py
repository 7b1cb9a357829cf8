"""What administrators see; every write goes through the services of the packages."""

from mcp_app.admin import access, approvals, audit, calls, catalogue, doctor, drafts, people, sessions

__all__ = ["access", "approvals", "audit", "calls", "catalogue", "doctor", "drafts", "people", "sessions"]
