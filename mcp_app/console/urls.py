"""The addresses of the console; its WebSocket has its own in routing.py."""

from __future__ import annotations

from django.urls import path

from mcp_app.console import views

app_name = "mcp_console"
urlpatterns = [
    path("", views.sessions, name="sessions"),
    path("sessions.json", views.sessions_now, name="sessions_now"),
    path("messages/", views.messages, name="messages"),
    path("messages/lines.json", views.lines, name="lines"),
    path("messages/one.json", views.message, name="message"),
    path("messages/download/", views.download, name="download"),
    path("sessions/<str:session_id>/", views.session, name="session"),
    path("sessions/<str:session_id>/now.json", views.session_now, name="session_now"),
    path("sessions/<str:session_id>/cancel/", views.cancel, name="cancel"),
    path("sessions/<str:session_id>/end/", views.end, name="end"),
]
