"""One action with arguments read from a table, and one without arguments."""

from __future__ import annotations

from typing import Any

from django.contrib.contenttypes.models import ContentType
from rest_framework import serializers, viewsets
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app import expose, tool


class NoteSerializer(serializers.Serializer[Any]):
    text = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        kinds = ContentType.objects.order_by("model").values_list("model", flat=True)
        return {**super().get_fields(), "kind": serializers.ChoiceField(choices=list(kinds))}


class NoteViewSet(viewsets.ViewSet):
    permission_classes = (AllowAny,)
    serializer_class = NoteSerializer

    def get_serializer(self, *arguments: Any, **keywords: Any) -> NoteSerializer:
        return NoteSerializer(*arguments, **keywords)

    def create(self, request: Request) -> Response:
        return Response(request.data)


expose.viewset(NoteViewSet, actions=["create"], prefix="notes")


@tool
def ping() -> str:
    """Answer."""
    return "pong"
