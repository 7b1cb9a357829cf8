"""subscriptions/listen: the part of a filter that is granted (specification: basic/subscriptions).

The transports manage connections and send the notifications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.handlers.context import CallerContext, Params
from mcp_app.handlers.resources import MAX_URI
from mcp_app.handlers.tasks import require
from mcp_app.protocol.features.subscriptions import LISTS, RESOURCES, read_filter, read_names
from mcp_app.protocol.features.tasks import TASK_IDS


class SubscriptionKind(Protocol):
    """A member of the filter that lists names, and the permission check for a name."""

    async def granted(self, asked: object, caller: CallerContext) -> list[str]:
        """Return the granted names. Raise InvalidParams unless ``asked`` is a list of names."""
        ...

    def permits(self, name: str, catalogue: CatalogueView) -> bool:
        """Return True if a subscriber with this current view may be notified about the name.

        Called before each notification, because permissions and the catalogue may have changed.
        """
        ...


class ResourceUpdates:
    """``notifications/resources/updated``. Resources that the client may not read are hidden (SUB-04)."""

    async def granted(self, asked: object, caller: CallerContext) -> list[str]:
        uris = read_names(asked, RESOURCES, caller.services.settings.max_subscriptions)
        return [uri for uri in uris if self.permits(uri, caller.catalogue)]

    def permits(self, name: str, catalogue: CatalogueView) -> bool:
        return len(name) <= MAX_URI and catalogue.resource(name) is not None


class TaskChanges:
    """``notifications/tasks`` for the caller's tasks (TASKX-16). It needs the extension (TASKX-12)."""

    async def granted(self, asked: object, caller: CallerContext) -> list[str]:
        require(caller)
        task_ids = read_names(asked, TASK_IDS, caller.services.settings.max_subscriptions)
        find, owner = caller.services.background.task, (caller.principal.key, caller.session.path)
        return [task_id for task_id in task_ids if await find(task_id, *owner) is not None]

    def permits(self, name: str, catalogue: CatalogueView) -> bool:
        """Return True, because a task never changes its owner."""
        return True


# The kinds by member of the filter. ``Subscriptions.notify`` sends their notifications.
KINDS: Mapping[str, SubscriptionKind] = {RESOURCES: ResourceUpdates(), TASK_IDS: TaskChanges()}


async def grant(caller: CallerContext, params: Params) -> dict[str, Any]:
    """Return the granted part of a request's filter for the acknowledgement, without unknown members."""
    asked = read_filter(params)
    granted: dict[str, Any] = {member: True for member in LISTS if asked.get(member)}
    for member, kind in KINDS.items():
        if member in asked and (names := await kind.granted(asked[member], caller)):
            granted[member] = names
    return granted
