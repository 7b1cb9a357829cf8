"""Views of background calls: start, follow, cancel, retry."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from mcp_app.api.base import ApiViewSet
from mcp_app.api.call_fields import CallInput, CallListed, CallShown, FollowedShown
from mcp_app.api.filtering import CallFilter, asked
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.api.problems import StateConflict
from mcp_app.catalogue.snapshots.current_snapshot import refresh_now
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.execution.call_log import CallLogPage, log_page, read_position, write_position
from mcp_app.execution.long_poll import wait_for_message
from mcp_app.execution.services import cancel_call, retry_call, start_call
from mcp_app.models import Call
from mcp_app.protocol.call_state import is_terminal
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.streams.base import Position, StreamsUnavailable

LARGE = ("arguments", "answer", "meta", "session_fields")
LONGEST_WAIT = 30
LONGEST_KEY = 200


class FollowQuery(serializers.Serializer[Any]):
    """The position and duration of a wait for events."""

    after = serializers.RegexField(
        r"^[0-9]{1,19}-[0-9]{1,18}\Z",
        required=False,
        help_text="The value of `after` in the previous response.",
    )
    wait = serializers.FloatField(
        default=0.0,
        min_value=0,
        max_value=LONGEST_WAIT,
        help_text=f"Seconds to wait for a new event or the end of the call, at most {LONGEST_WAIT}.",
    )


class CallViews(ApiViewSet):
    """Background calls of clients, operators and this API."""

    queryset = Call.objects.all()
    serializer_class = CallShown
    filters = CallFilter
    order = "-accepted_at"
    lookup_value_converter = "uuid"
    needs = {
        "list": seeing("call"),
        "retrieve": seeing("call"),
        "follow": seeing("call"),
        "create": to("try_entries"),
        "cancel": to("change_call"),
        "retry": to("change_call"),
    }

    @described(responses=CallListed(many=True))
    def list(self, request: Request) -> Response:
        """List all calls.

        Returns calls without their arguments and answers, newest first.
        """
        return self.page(self.get_queryset().defer(*LARGE), CallListed)

    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Retrieve a call.

        Secrets in its arguments and answer are redacted unless you made the call.
        """
        return Response(self.get_serializer(self.get_object()).data)

    @described(
        request=CallInput,
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description=f"A key that makes the request safe to retry, at most {LONGEST_KEY} characters. "
                "A repeated request with the same key returns the call it created.",
            )
        ],
        responses={
            202: OpenApiResponse(CallShown, description="The call was created."),
            200: OpenApiResponse(CallShown, description="An earlier request with this key created the call."),
        },
    )
    def create(self, request: Request) -> Response:
        """Create a call.

        Starts a tool in the background. The permission and limits of the tool apply as they do over MCP. With
        `toolset`, only its tools can be called, with its fixed arguments, limits and access.
        """
        given = CallInput(data=request.data)
        given.is_valid(raise_exception=True)
        call_id, is_new = start_call(
            principal=self.request.auth,
            actor=request.user,
            key=_key(request),
            tool=given.validated_data["tool"],
            # The arguments are passed as the client sent them, because the tool's schema validates them.
            arguments=self.request.data.get("arguments", {}),
            address=request.META.get("REMOTE_ADDR") or "",
            path=_path(given.validated_data.get("toolset")),
        )
        return self._made(call_id, 202 if is_new else 200)

    @described(parameters=[FollowQuery], responses=FollowedShown)
    @action(detail=True)
    def follow(self, request: Request, pk: UUID) -> Response:
        """Retrieve new events of a call.

        Returns the events after the position `after`. With `wait`, the response is delayed until a new event
        occurs. Repeat the request until `over` is true.
        """
        how = asked(FollowQuery, request).validated_data
        after = read_position(how.get("after"))
        call = self.get_object()
        if how["wait"]:
            call = wait_for_message(call, after, how["wait"])
        log = _log_page(call, after)
        return Response(
            {
                "call": self.get_serializer(call).data,
                "over": is_terminal(call.state),
                "lines": [{"level": line.level, "text": line.text} for line in log.lines],
                "after": write_position(log.position),
            }
        )

    @described(request=None, responses={202: CallShown})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: UUID) -> Response:
        """Cancel a call.

        The call is stopped asynchronously; use `follow` to learn when it has finished.
        """
        if not cancel_call(call_id=self.get_object().pk, actor=request.user):
            raise StateConflict("The call has already finished.")
        return Response(self.get_serializer(self.get_object()).data, status=202)

    @described(request=None, responses={202: CallShown})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: UUID) -> Response:
        """Retry a finished call.

        Creates a new call of the same principal with the same tool and arguments.
        """
        return self._made(retry_call(call_id=self.get_object().pk, actor=request.user), 202)

    def _made(self, call_id: UUID, status: int) -> Response:
        shown = self.get_serializer(Call.objects.get(pk=call_id)).data
        address = reverse("mcp_api:calls-detail", args=[call_id], request=self.request)
        return Response(shown, status=status, headers={"Location": address})


def _path(slug: str | None) -> str:
    """Return the path of a toolset, or that of the installation's own server. Raises Http404."""
    if slug is None:
        return ENDPOINT
    if path_of(slug) not in refresh_now().toolsets:
        raise Http404
    return path_of(slug)


def _key(request: Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise serializers.ValidationError(
            {"Idempotency-Key": [f"Must have at most {LONGEST_KEY} printable characters."]}
        )
    return key


def _log_page(call: Call, after: Position | None) -> CallLogPage:
    try:
        return log_page(call.session_id, call.stream, after)
    except StreamsUnavailable:
        return CallLogPage(position=after)
