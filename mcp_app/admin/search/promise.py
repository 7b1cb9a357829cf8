"""Hints of the search box: the kinds of results the user may find, and the limits of the search."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest

from mcp_app.admin.calls.argument_search import MOST_OPEN
from mcp_app.admin.search.sources import finds_people
from mcp_app.admin.search.traffic import NEWEST_SESSIONS

WORDS: Final = (
    ("tool", "mcp_app.view_tool"),
    ("prompt", "mcp_app.view_prompt"),
    ("resource", "mcp_app.view_resource"),
    ("session", "mcp_app.view_session"),
    ("call", "mcp_app.view_call"),
    ("message", "mcp_app.view_message"),
    ("key", "mcp_app.view_apikey"),
    ("setting", "mcp_app.run_doctor"),
)
# Kinds that are searched only in part.
BOUNDS: Final = (
    (f"the newest {NEWEST_SESSIONS:,} sessions", "mcp_app.view_session"),
    (f"calls that wait or run, and the newest {MOST_OPEN:,}", "mcp_app.view_call"),
)


def promised(request: HttpRequest) -> str:
    """Return the placeholder of the search box: the kinds of results the user may find."""
    words = [word for word, permission in WORDS if request.user.has_perm(permission)]
    words += ["person"] if finds_people(request) else []
    return f"a {', '.join([*words, 'page'])} or document"


def bounds(request: HttpRequest) -> str:
    """Return the limits of the search for kinds that the user may view; "" if there are none."""
    found = [bound for bound, permission in BOUNDS if request.user.has_perm(permission)]
    return f"Looks through {'; '.join(found)}." if found else ""
