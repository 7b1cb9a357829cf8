"""The methods and notifications that the specification defines, in any revision."""

from __future__ import annotations

import re
from typing import Final

# Requests that clients send.
REQUESTS: Final = frozenset(
    (
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "completion/complete",
        "logging/setLevel",
        "tasks/get",
        "tasks/result",
        "tasks/list",
        "tasks/cancel",
        "tasks/update",
    )
)
# Requests that servers send, and notifications of both sides.
OTHERS: Final = frozenset(
    (
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        "notifications/tasks",
        "notifications/tasks/status",
        "notifications/subscriptions/acknowledged",
    )
)
NOTIFICATION: Final = "notifications/"
# Methods that a client may call. Extensions add their own methods.
METHODS: Final = set(REQUESTS)
# The label for unknown methods. With it, clients cannot create new labels.
OTHER: Final = "other"

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)+")
_LONGEST: Final = 128


def check_own_method(name: str) -> str:
    """Return the name of a request that an extension adds. Raise ValueError with the problem."""
    _check(name)
    if name.startswith(NOTIFICATION):
        raise ValueError(f"{name!r} is the name of a notification, not of a method.")
    return name


def check_own_notification(name: str) -> str:
    """Return the name of a notification that an extension sends. Raise ValueError with the problem."""
    _check(name)
    if not name.startswith(NOTIFICATION):
        raise ValueError(f"The name of a notification begins with {NOTIFICATION!r}, {name!r} does not.")
    return name


def _check(name: str) -> None:
    if type(name) is not str or len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a method: use a form such as 'shelves/list'.")
    if name in REQUESTS or name in OTHERS:
        raise ValueError(f"{name!r} is a name of the protocol itself: choose another.")


def every_method() -> list[str]:
    """Return the sorted methods that can be in the message log, for suggestions on pages."""
    return sorted(METHODS | OTHERS)
