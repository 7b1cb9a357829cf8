"""URLs of the console. Its WebSocket is routed in ``routing.py``."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from mcp_app.console import views


class _SessionId(StringConverter):
    """A path converter that matches no control characters.

    ``reverse`` would fail for an id that contains a line break.
    """

    regex = r"[^/\x00-\x1f\x7f]+"


register_converter(_SessionId, "session_id")

app_name = "mcp_console"
urlpatterns = [
    path("", views.sessions, name="sessions"),
    path("sessions.json", views.sessions_now, name="sessions_now"),
    path("messages/", views.messages, name="messages"),
    path("messages/lines.json", views.lines, name="lines"),
    path("messages/one.json", views.message, name="message"),
    path("messages/incidents/<slug:number>.json", views.incident, name="incident"),
    path("messages/download/", views.download, name="download"),
    path("sessions/<session_id:session_id>/", views.session, name="session"),
    path("sessions/<session_id:session_id>/now.json", views.session_now, name="session_now"),
    path("sessions/<session_id:session_id>/cancel/", views.cancel, name="cancel"),
    path("sessions/<session_id:session_id>/end/", views.end, name="end"),
]
