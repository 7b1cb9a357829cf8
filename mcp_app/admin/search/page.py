"""Views of the global search: the page of results, the JSON for the search box, and the documents."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from mcp_app.admin.calls.argument_search import MOST_OPEN
from mcp_app.admin.search import documents, markdown
from mcp_app.admin.search.sources import find, finds_people, shown
from mcp_app.admin.search.traffic import NEWEST_SESSIONS

# Kinds of results and the permissions to find them.
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
# Limits of kinds of which not all rows are searched.
BOUNDS: Final = (
    ("sessions", f"{NEWEST_SESSIONS:,}", "mcp_app.view_session"),
    ("finished calls", f"{MOST_OPEN:,}", "mcp_app.view_call"),
)


@require_safe
def anything(request: HttpRequest) -> HttpResponse:
    """Show the results of a search for ``q``. With ``format=json``, return them for the search box."""
    text = request.GET.get("q", "")
    if request.GET.get("format") == "json":
        found = [shown(each) for each in find(request, text)]
        # If there is no query, the search box shows what can be found.
        about = {} if text else {"promised": _promised(request), "bounds": _bounds(request)}
        return JsonResponse({"found": found, **about})
    about_all = admin.site.each_context(request)
    vars(request).update(app_list=about_all["available_apps"])
    context: dict[str, Any] = {
        **about_all, "title": "Search", "q": text,
        "found": [shown(each) for each in find(request, text)],
        "promised": _promised(request), "bounds": _bounds(request),
    }  # fmt: skip
    return TemplateResponse(request, "mcp_admin/anything.html", context)


@require_safe
def document(request: HttpRequest, name: str, folder: str = "") -> HttpResponse:
    """Show a document of this project.

    Raises Http404 if there is no such document.
    """
    page = f"{folder}/{name}" if folder else name
    sections = documents.pages().get(page)
    if not sections:
        raise Http404
    context: dict[str, Any] = {
        **admin.site.each_context(request), "title": sections[0].title, "page": page,
        "sections": [{**each._asdict(), "html": markdown.html(each.text)} for each in sections],
    }  # fmt: skip
    return TemplateResponse(request, "mcp_admin/document.html", context)


def _promised(request: HttpRequest) -> str:
    """Return the placeholder of the search box, which lists the kinds of results that the user may find."""
    words = [word for word, permission in WORDS if request.user.has_perm(permission)]
    words += ["user"] if finds_people(request) else []
    return f"Find a {', '.join([*words, 'page'])} or help page"


def _bounds(request: HttpRequest) -> str:
    """Return a sentence about the limits of the search, or "" if none concerns the user."""
    has = request.user.has_perm
    found = [f"the latest {most} {kind}" for kind, most, permission in BOUNDS if has(permission)]
    return f"The search covers {' and '.join(found)}." if found else ""
