"""Views of the message log."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet
from mcp_app.api.filtering import MessageFilter, asked
from mcp_app.api.formats import RowSerializer
from mcp_app.api.openapi import described
from mcp_app.api.paging import LogPages
from mcp_app.api.permissions import seeing
from mcp_app.models import Message


class MessageListed(RowSerializer[Message]):
    """A logged message without its payload."""

    session_id = serializers.CharField(allow_null=True)

    class Meta:
        model = Message
        fields: Any = (
            "id", "at", "session_id", "direction", "kind", "method", "request_id", "target", "outcome",
            "code", "refusal", "incident", "duration_ms", "principal", "process", "skipped",
        )  # fmt: skip


class FrameShown(serializers.Serializer[Any]):
    """A frame of a traceback. `own` is true for code of the project, and false for code of libraries."""

    file = serializers.CharField()
    line = serializers.IntegerField()
    function = serializers.CharField()
    module = serializers.CharField()
    own = serializers.BooleanField()
    omitted = serializers.IntegerField(help_text="The number of frames left out before this one.")


class ExceptionShown(serializers.Serializer[Any]):
    """An unexpected exception of application code. The innermost frame is the last."""

    type = serializers.CharField(source="exception")
    message = serializers.CharField()
    frames = FrameShown(many=True)


class OutgoingShown(serializers.Serializer[Any]):
    """A request to another server: redacted, without its credential, and possibly truncated."""

    number = serializers.IntegerField(help_text="Counts the requests of the call from 1.")
    method = serializers.CharField()
    url = serializers.CharField()
    headers = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    body = serializers.CharField()
    sent = serializers.IntegerField(help_text="Bytes of the body.")
    status = serializers.IntegerField(allow_null=True)
    content_type = serializers.CharField()
    answer = serializers.CharField()
    received = serializers.IntegerField(help_text="Bytes of the response's body.")
    ms = serializers.FloatField(allow_null=True)
    problem = serializers.CharField(help_text="Why there was no complete response, or empty.")


class MessageShown(MessageListed):
    """A logged message. A request includes its response.

    `payload` and `answer` are JSON texts, redacted and possibly truncated. `exception` is null unless
    application code raised an unexpected exception. `outgoing` are the call's requests to other servers.
    """

    exception = ExceptionShown(source="raised", read_only=True, allow_null=True)
    outgoing = OutgoingShown(source="requests", many=True, read_only=True)

    class Meta(MessageListed.Meta):
        fields = (*MessageListed.Meta.fields, "payload", "answer", "exception", "outgoing")


class MessageViews(ApiViewSet):
    """The message log."""

    queryset = Message.objects.all()
    serializer_class = MessageListed
    filters = MessageFilter
    pagination_class = LogPages
    lookup_value_converter = "int"
    needs = {"list": seeing("message"), "retrieve": seeing("message")}

    def list(self, request: Request) -> Response:
        """List all messages.

        Returns messages without their payloads, newest first. A page can have fewer than `limit` messages
        even if there are more pages.
        """
        narrowed = asked(MessageFilter, request, "cursor", "limit").validated_data
        pages: Any = self.paginator
        found = pages.paginate_log(narrowed, request, without=("payload", "answer", "exception", "outgoing"))
        return self.get_paginated_response(self.get_serializer(found, many=True).data)

    @described(responses=MessageShown)
    def retrieve(self, request: Request, pk: int) -> Response:
        """Retrieve a message."""
        return Response(MessageShown(self.get_object()).data)
