"""The page on which users choose the time zone of all pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from mcp_app.auth.time_zone import choose_zone, own_zone, shown_zone


@require_http_methods(["GET", "HEAD", "POST"])
def zone(request: HttpRequest) -> HttpResponse:
    """Show the page. A POST stores the chosen time zone and redirects to the page where the user was."""
    if request.method == "POST":
        following = request.POST.get("next", "")
        try:
            choose_zone(user=request.user, name=request.POST.get("zone", ""))
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        local = url_has_allowed_host_and_scheme(following, {request.get_host()}, request.is_secure())
        return HttpResponseRedirect(following if local else reverse("mcp_zone"))
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Time zone",
        "zone": shown_zone(),
        "zones": dict.fromkeys([shown_zone(), "UTC", own_zone()]),
    }
    return TemplateResponse(request, "mcp_admin/zone.html", context)
