"""Owns the page of the box, and what the box on other pages fetches."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from mcp_app.admin.finding.sources import find, shown


@require_safe
def anything(request: HttpRequest) -> HttpResponse:
    """What ``q`` names, as a page or, with ``format=json``, for the box."""
    text = request.GET.get("q", "")
    found = [shown(each) for each in find(request, text)]
    if request.GET.get("format") == "json":
        return JsonResponse({"found": found})
    context: dict[str, Any] = {
        **admin.site.each_context(request), "title": "Search for anything", "q": text, "found": found,
    }  # fmt: skip
    return TemplateResponse(request, "mcp_admin/anything.html", context)
