"""The pages and the API that are served through Django's URLs. A project may include them under any path.

Each is available only if its requirements are met. The global search and notifications need Django's admin.
The live console also needs Channels. The REST API needs ``rest_framework`` in INSTALLED_APPS, and
drf-spectacular. ``manage.py check`` reports what is missing.
"""

from __future__ import annotations

from django.apps import apps
from django.urls import URLPattern, URLResolver, include, path

from mcp_app import views
from mcp_app.connections import pages as connections
from mcp_app.optional_parts import API, CONSOLE

urlpatterns: list[URLPattern | URLResolver] = [
    path("connect/", views.connect, name="mcp_connect"),
    path("server.json", views.server_document, name="mcp_server_json"),
    path("connections/", connections.own, name="mcp_connections"),
    path("connections/<int:pk>/connect/", connections.connect, name="mcp_connection_connect"),
    path("connections/<int:pk>/end/", connections.disconnect, name="mcp_connection_end"),
    path("connections/<int:pk>/callback", connections.callback, name="mcp_connection_callback"),
    path("connections/<int:pk>/client.json", connections.client_document, name="mcp_connection_client"),
]
if apps.is_installed("django.contrib.admin"):
    # Imported here, because these modules cannot be imported without Django's admin.
    from django.contrib import admin

    from mcp_app.admin.notifications.page import notifications
    from mcp_app.admin.personal.visibility import person
    from mcp_app.admin.personal.zone import zone
    from mcp_app.admin.search.page import anything, document

    urlpatterns += [
        path("find/", admin.site.admin_view(anything), name="mcp_find"),
        path("find/documents/<str:name>", admin.site.admin_view(document), name="mcp_document"),
        path("find/documents/<str:folder>/<str:name>", admin.site.admin_view(document), name="mcp_document"),
        path("people/<str:pk>/", admin.site.admin_view(person), name="mcp_person"),
        path("zone/", admin.site.admin_view(zone), name="mcp_zone"),
        path("notifications/", admin.site.admin_view(notifications), name="mcp_notifications"),
    ]
if CONSOLE.is_there():
    urlpatterns.append(path("console/", include("mcp_app.console.urls")))
if API.is_there():
    urlpatterns.append(path("api/", include("mcp_app.api.urls")))
