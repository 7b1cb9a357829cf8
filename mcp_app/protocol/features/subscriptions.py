"""``subscriptions/listen`` of 2026-07-28: its filter and its notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.protocol.downlevel import complete
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.jsonrpc import Id, encode_id, encode_notification, encode_result

METHOD: Final = "subscriptions/listen"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
CANCELLED: Final = "notifications/cancelled"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
LIST_CHANGED: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
# Maps members of a subscription filter to the list whose changes they subscribe to.
LISTS: Final = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
RESOURCES: Final = "resourceSubscriptions"

_END: Final = b"null}}}"


class Notice:
    """A notification that is encoded once for all subscriptions.

    ``tagged`` inserts a subscription's id (SUB-03).
    """

    __slots__ = ("_head", "_tag", "_tagged", "method")

    def __init__(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.method = method
        members = dict(params or {})
        meta = {**members.pop("_meta", {}), SUBSCRIPTION_ID: None}
        self._head = encode_notification(method, {**members, "_meta": meta}).removesuffix(_END)
        # A cache of the last id. Clients number their requests alike, so most subscriptions have the same
        # id.
        self._tag = self._tagged = b""

    def tagged(self, tag: bytes) -> bytes:
        """Return the whole notification for the subscription that has this encoded id."""
        if tag != self._tag:
            self._tag, self._tagged = tag, b"%b%b}}}" % (self._head, tag)
        return self._tagged


def read_filter(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter of a request after checking its types. Raise InvalidParams (SUB-01)."""
    asked = params.get("notifications")
    if type(asked) is not dict:
        raise InvalidParams("subscriptions/listen needs the member 'notifications', an object.")
    for member in LISTS:
        if type(asked.get(member, False)) is not bool:
            raise InvalidParams(f"The member {member!r} must be true or false.")
    return asked


def read_names(asked: object, member: str, most: int) -> list[str]:
    """Return the distinct names in a member of a filter, in order.

    Raise InvalidParams for more than ``most``.
    """
    if type(asked) is not list or any(type(name) is not str for name in asked):
        raise InvalidParams(f"The member {member!r} must be a list of strings.")
    names = list(dict.fromkeys(asked))
    if len(names) > most:
        raise InvalidParams(f"The member {member!r} may name at most {most} on one subscription.")
    return names


def acknowledgement(tag: bytes, granted: Mapping[str, Any]) -> bytes:
    """Return the first message of a subscription: the part of its filter that the server grants (SUB-02)."""
    return Notice(ACKNOWLEDGED, {"notifications": granted}).tagged(tag)


def closing(request_id: Id, server_meta: Mapping[str, Any]) -> bytes:
    """Return the answer to the subscription's request, which ends the subscription (SUB-09)."""
    return encode_result(request_id, complete(METHOD, {}, {**server_meta, SUBSCRIPTION_ID: request_id}))


def cancelled(request_id: Id, reason: str) -> bytes:
    """Return the notification that precedes the closing answer on a shared channel (CAN-07)."""
    return Notice(CANCELLED, {"requestId": request_id, "reason": reason}).tagged(encode_id(request_id))
