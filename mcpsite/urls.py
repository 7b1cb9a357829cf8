"""Django's URLs. Requests to /mcp and health checks are served before they reach Django."""

from __future__ import annotations

from urllib.parse import unquote

from django.contrib import admin
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import include, path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.generic import RedirectView

# For requests that are refused before any view. The response has the format for the requested path.
handler400 = "mcpsite.error_pages.bad_request"
handler403 = "mcpsite.error_pages.permission_denied"
handler404 = "mcpsite.error_pages.page_not_found"
handler500 = "mcpsite.error_pages.server_error"


def login(request: HttpRequest) -> HttpResponse:
    """Show the admin's login page. The URL of the next page is also checked in its decoded form."""
    wanted = request.POST.get(REDIRECT_FIELD_NAME, request.GET.get(REDIRECT_FIELD_NAME, ""))
    hosts = {request.get_host()}
    if wanted and not url_has_allowed_host_and_scheme(unquote(wanted), hosts, request.is_secure()):
        return redirect("admin:login")
    return admin.site.login(request)


def logout(request: HttpRequest) -> HttpResponse:
    """Log out by POST. GET leads to the admin, whose menu has the button."""
    return admin.site.logout(request) if request.method == "POST" else redirect("admin:index")


urlpatterns = [
    path("", RedirectView.as_view(url="/admin/")),
    path("admin/login/", login),
    path("admin/logout/", logout),
    path("admin/", admin.site.urls),
    path("", include("mcp_app.oauth.urls")),
    path("", include("mcp_app.urls")),
]
