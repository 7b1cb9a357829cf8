"""The addresses that Django serves; /mcp and the health checks are answered before Django is asked."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from mcp_app import views

# What is refused before any view is asked, in the words of the place that was asked.
handler400 = "mcp_app.api.problems.bad_request"

urlpatterns = [
    path("", RedirectView.as_view(url="/admin/")),
    path("admin/", admin.site.urls),
    path("console/", include("mcp_app.console.urls")),
    path("api/", include("mcp_app.api.urls")),
    path("connect/", views.connect, name="mcp_connect"),
    path("server.json", views.server_document, name="mcp_server_json"),
]
