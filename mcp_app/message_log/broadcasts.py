"""Notifications of one change to many sessions: the log lists them as one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp_app.message_log.pages import MessagePage
from mcp_app.message_log.search.language import Search
from mcp_app.models import Message
from mcp_app.protocol.features.subscriptions import LIST_CHANGED, RESOURCE_UPDATED

# The notifications, and the seconds within which all sessions receive those of one change.
METHODS: Final = frozenset({*LIST_CHANGED.values(), RESOURCE_UPDATED})
WITHIN: Final = 10.0
# Maximum number of further pages that are read until a page is full.
MOST_PAGES: Final = 20


class Broadcasts:
    """The rows of a list by the change of which they notify a session."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], Message] = {}
        # The other rows of a broadcast, by the primary key of its first row in the list.
        self.others: dict[int, list[Message]] = {}

    def is_listed(self, message: Message) -> bool:
        """Return True if the list has a row of the same broadcast. The message is then added to it."""
        if message.method not in METHODS or message.kind != "notification" or message.session_id is None:
            return False
        key = message.method, message.payload
        first = self._newest.get(key)
        if first is None or abs((first.at - message.at).total_seconds()) > WITHIN:
            self._newest[key] = message
            return False
        self.others.setdefault(first.pk, []).append(message)
        return True


def are_grouped(asked: dict[str, Any]) -> bool:
    """Return False for a search of one session, or of one method: it lists every notification."""
    search: Search | None = asked.get("search")
    exact = {term.exact[0] for term in search.terms if term.exact} if search else set()
    return not ({"session", "method"} & (exact | {name for name, value in asked.items() if value}))


def until_full(
    found: MessagePage, size: int, further: Callable[[MessagePage], MessagePage | None], *, upwards: bool
) -> tuple[list[Message], MessagePage, Broadcasts]:
    """Return the rows of a page with one row per broadcast, and the last page that was read for them.

    ``further`` returns the page that continues another one, or None. ``upwards`` is True if it has newer
    messages.
    """
    groups = Broadcasts()

    def listed(messages: list[Message]) -> list[Message]:
        in_order = messages if upwards else messages[::-1]
        return [message for message in in_order if not groups.is_listed(message)]

    rows = listed(found.messages)
    for _ in range(MOST_PAGES):
        if len(rows) >= size or not groups.others:
            break
        following = further(found)
        if following is None:
            break
        found = following
        rows += listed(found.messages)
    return rows, found, groups
