"""Views of the global search: the results page, the JSON for the search box, and document pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from mcp_app.admin.search import documents, markdown
from mcp_app.admin.search.promise import bounds, promised
from mcp_app.admin.search.sources import find, shown


@require_safe
def anything(request: HttpRequest) -> HttpResponse:
    """Search for ``q``; render a page, or JSON for the search box with ``format=json``."""
    text = request.GET.get("q", "")
    if request.GET.get("format") == "json":
        found = [shown(each) for each in find(request, text)]
        # Without a query the box describes what it can find.
        about = {} if text else {"promised": promised(request), "bounds": bounds(request)}
        return JsonResponse({"found": found, **about})
    about_all = admin.site.each_context(request)
    vars(request).update(app_list=about_all["available_apps"])
    context: dict[str, Any] = {
        **about_all, "title": "Search for anything", "q": text,
        "found": [shown(each) for each in find(request, text)],
        "promised": promised(request), "bounds": bounds(request),
    }  # fmt: skip
    return TemplateResponse(request, "mcp_admin/anything.html", context)


@require_safe
def document(request: HttpRequest, name: str, folder: str = "") -> HttpResponse:
    """Show one page of the project's documents.

    Raises Http404 unless the page is among the loaded documents.
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
