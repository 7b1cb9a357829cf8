"""subscriptions/listen: which part of a filter is served to whom (specification: basic/subscriptions).

Connections and their notifications belong to the transports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.handlers.context import Asked, Params
from mcp_app.handlers.resources import MAX_URI
from mcp_app.handlers.tasks import require
from mcp_app.protocol.features.subscriptions import LISTS, RESOURCES, read_filter, read_names
from mcp_app.protocol.features.tasks import TASK_IDS


class SubscriptionKind(Protocol):
    """A member of the filter that names things, and the permission check for them."""

    async def granted(self, asked: object, asker: Asked) -> list[str]:
        """Those of the names asked for that are served; raises InvalidParams for what is no list of names."""
        ...

    def may_hear(self, name: str, catalogue: CatalogueView) -> bool:
        """Return True if a subscriber with this view, the newest, may be notified of the thing.

        Called before each notification: permissions and the catalogue change meanwhile.
        """
        ...


class ResourceUpdates:
    """``notifications/resources/updated``; what its client may not read does not exist for it (SUB-04)."""

    async def granted(self, asked: object, asker: Asked) -> list[str]:
        """See ``SubscriptionKind.granted``."""
        uris = read_names(asked, RESOURCES, asker.services.settings.max_subscriptions)
        return [uri for uri in uris if self.may_hear(uri, asker.catalogue)]

    def may_hear(self, name: str, catalogue: CatalogueView) -> bool:
        """See ``SubscriptionKind.may_hear``."""
        return len(name) <= MAX_URI and catalogue.resource(name) is not None


class TaskChanges:
    """``notifications/tasks`` of the caller's own tasks, if it declared that (TASKX-12, TASKX-16)."""

    async def granted(self, asked: object, asker: Asked) -> list[str]:
        """See ``SubscriptionKind.granted``."""
        require(asker)
        task_ids = read_names(asked, TASK_IDS, asker.services.settings.max_subscriptions)
        find, principal = asker.services.background.task, asker.principal.key
        return [task_id for task_id in task_ids if await find(task_id, principal) is not None]

    def may_hear(self, name: str, catalogue: CatalogueView) -> bool:
        """See ``SubscriptionKind.may_hear``: a task never changes hands."""
        return True


# By member of the filter. ``tell`` of ``transports.subscriptions`` sends its notifications.
KINDS: Mapping[str, SubscriptionKind] = {RESOURCES: ResourceUpdates(), TASK_IDS: TaskChanges()}


async def grant(asker: Asked, params: Params) -> dict[str, Any]:
    """The part of a request's filter that is served, as it is acknowledged; what is unknown is left out."""
    asked = read_filter(params)
    granted: dict[str, Any] = {member: True for member in LISTS if asked.get(member)}
    for member, kind in KINDS.items():
        if member in asked and (names := await kind.granted(asked[member], asker)):
            granted[member] = names
    return granted
