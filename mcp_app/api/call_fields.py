"""Background calls in the API. They are redacted unless the client made the call itself."""

from __future__ import annotations

import json
from typing import Any

from rest_framework import serializers

from mcp_app.api.base import InputSerializer
from mcp_app.api.formats import RowSerializer
from mcp_app.execution.call_log import redactor
from mcp_app.models import Call

# A limit larger than any text, because nothing is truncated here.
WHOLE = 1 << 30
LISTED = (
    "id", "tool", "state", "outcome", "principal", "session_id", "accepted_at", "started_at", "finished_at",
    "attempt", "max_attempts", "timeout", "queue", "priority", "worker", "progress", "total", "message",
    "cancel_requested_at", "cancel_reason", "retry_of_id", "task_until",
)  # fmt: skip


class CallListed(RowSerializer[Call]):
    """A background call without its arguments and answer."""

    message = serializers.SerializerMethodField(help_text="The latest progress message of the call.")
    retry_of_id = serializers.UUIDField(allow_null=True)

    class Meta:
        model = Call
        fields: Any = LISTED

    def get_message(self, call: Call) -> str:
        return redactor().text(call.message)


class CallShown(CallListed):
    """A background call with its arguments and answer."""

    request_id = serializers.SerializerMethodField(help_text="The JSON-RPC id of the request.")
    arguments = serializers.SerializerMethodField(
        help_text="The arguments. Secrets are redacted unless you made the call."
    )
    answer = serializers.SerializerMethodField(
        help_text="The JSON-RPC response, null until the call has finished. "
        "Secrets are redacted unless you made the call."
    )

    class Meta(CallListed.Meta):
        fields = (*LISTED, "request_id", "arguments", "answer")

    def get_request_id(self, call: Call) -> int | str:
        found: int | str = value_of(call.request_id)
        return found

    def get_arguments(self, call: Call) -> dict[str, Any]:
        found: dict[str, Any] = value_of(self._clean(call, call.arguments))
        return found

    def get_answer(self, call: Call) -> dict[str, Any] | None:
        found: dict[str, Any] | None = value_of(self._clean(call, call.answer)) if call.answer else None
        return found

    def _clean(self, call: Call, text: str) -> str:
        # The same principal gets the unredacted answer over MCP as well.
        if call.principal == self.context["request"].auth.key:
            return text
        return redactor().message(text.encode("utf-8", "replace"), WHOLE)


def value_of(text: str) -> Any:
    """Return the value of a stored JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class CallInput(InputSerializer):
    """The tool to call, and its arguments."""

    tool = serializers.CharField(max_length=128)
    arguments = serializers.DictField(default=dict)
    toolset = serializers.SlugField(
        max_length=50, required=False, help_text="The slug of the toolset whose tool is called."
    )


class LineShown(serializers.Serializer[Any]):
    """An event of a call.

    `level` is the level of a log message, `progress` or `question`.
    """

    level = serializers.CharField()
    text = serializers.CharField()


class FollowedShown(serializers.Serializer[Any]):
    """A call and its new events."""

    call = CallShown()
    over = serializers.BooleanField(help_text="True if the call has finished.")
    lines = LineShown(many=True)
    after = serializers.CharField(help_text="The position to send as `after` in the next request.")
