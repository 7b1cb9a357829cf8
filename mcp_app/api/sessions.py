"""Views of sessions, which can be ended."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet
from mcp_app.api.filtering import SessionFilter
from mcp_app.api.formats import RowSerializer
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.api.problems import StateConflict
from mcp_app.models import Session
from mcp_app.sessions.services import end_session_now


class SessionShown(RowSerializer[Session]):
    """A session of a client."""

    user: Any = serializers.StringRelatedField()

    class Meta:
        model = Session
        fields = (
            "id", "principal", "user", "protocol_version", "client_name", "client_version", "address",
            "created_at", "last_seen_at", "ended_at", "end_reason",
        )  # fmt: skip


class SessionViews(ApiViewSet):
    """Sessions of clients."""

    queryset = Session.objects.select_related("user")
    serializer_class = SessionShown
    filters = SessionFilter
    order = "-created_at"
    needs = {"list": seeing("session"), "retrieve": seeing("session"), "end": to("change_session")}

    def list(self, request: Request) -> Response:
        """List all sessions.

        Returns the sessions newest first.
        """
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: str) -> Response:
        """Retrieve a session."""
        return Response(self.get_serializer(self.get_object()).data)

    def get_object(self) -> Session:
        """Return the session. Raises Http404 for an id with a NUL character, which databases would reject."""
        if "\0" in self.kwargs["pk"]:
            raise Http404
        found: Session = super().get_object()
        return found

    @described(request=None)
    @action(detail=True, methods=["post"])
    def end(self, request: Request, pk: str) -> Response:
        """End a session.

        Takes effect in all processes. The client has to initialize again.
        """
        session = self.get_object()
        if session.ended_at is not None or not end_session_now(session_id=session.pk, actor=request.user):
            raise StateConflict("The session has already ended.")
        return self.retrieve(request, session.pk)
