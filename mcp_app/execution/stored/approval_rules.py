"""The rules of approval: whether a waiting call may still be approved, and by which users.

Every decision about a waiting call is made here, from the data stored at that moment. Four eyes are
required if the call was accepted with that rule or if its tool has the rule now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from mcp_app.auth import tokens
from mcp_app.auth.makers import Maker, maker_of_key, makers_of_connections, makers_of_user
from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.lookup import rows_of, source_of
from mcp_app.execution.stored.approved_work import work_of
from mcp_app.execution.stored.call_record import retriers_of
from mcp_app.models import ApiKey, Call, CatalogueChange, Session, Tool
from mcp_app.protocol.call_state import State
from mcp_app.protocol.principal_key import actor_of

UNKNOWN_CALLER: Final = "The user who made this call is unknown, so no user can approve it."
# Long columns, needed only for the comparison of the work.
LONG: Final = ("arguments", "answer", "meta", "session_fields")


def waiting() -> QuerySet[Call]:
    """Return the calls that wait for approval, with the columns that the rules read."""
    return Call.objects.filter(state=State.APPROVAL_NEEDED).defer(*LONG)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change to a tool after a call was accepted."""

    key: str
    entry_id: int | None
    revision: int
    actor: str


class ApprovalRules:
    """The rules for a collection of calls. The data of all calls is read together."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._calls = list(calls)
        self._read_tools()
        self._read_askers()
        self._makers: dict[Any, list[Maker]] = {}

    def end_of(self, call: Call) -> str:
        """Return the reason why a call can no longer be approved, or ""."""
        return self.fallen(call) or self.changed(call)

    def fallen(self, call: Call) -> str:
        """Return the reason why the credential of a call is no longer valid, or ""."""
        if call.session_id in self._ended_sessions:
            return "The session that asked for this call was ended."
        actor = actor_of(call.principal)
        if actor and actor not in self._active:
            return "The account of the person who asked for this call was closed."
        if call.user_id is None:
            return "The user who asked for this call was deleted." if _had_user(call) else ""
        if str(call.user_id) not in self._active:
            return "The account of the user who asked for this call was closed."
        if call.api_key_id is not None:
            return self._fallen_key(call.api_key_id)
        if call.connection_id in self._ended_connections:
            return "The OAuth connection that asked for this call was ended."
        return ""

    def _fallen_key(self, key_id: int) -> str:
        key = self._keys.get(key_id)
        if key is None or key.revoked_at is not None:
            return "The API key that asked for this call was revoked."
        return "" if key.usable else "The API key that asked for this call has expired."

    def changed(self, call: Call) -> str:
        """Return the reason why the work is no longer the work that was requested, or ""."""
        tool = self._tools.get(call.tool)
        if tool is None:
            return f"{call.tool} was deleted after this call was asked for."
        if work_of(identity_of(tool), orjson.loads(call.arguments)) != call.work:
            return f"{call.tool} was changed after this call was asked for: call it again."
        return ""

    def touched(self, call: Call) -> bool:
        """Return True if the call's tool, or the tool behind its preset, has changed meanwhile."""
        return not call.work or any(self._changes_of(call))

    def four_eyes(self, call: Call) -> bool:
        """Return True if a call needs two people, by the rule stored with it or its tool's current rule."""
        return call.four_eyes or any(row.four_eyes for row in self._rows_of(call))

    def objection(self, call: Call, actor: Any) -> str:
        """Return the reason why this actor must not approve a call, or "".

        Four eyes require two known users, so no user qualifies if the caller is unknown. The second user
        must not be the caller and must not act as the caller. The second user must not have retried the
        call or a call that it repeats. Nor may this user have created its credential, or changed its tool
        while the call waited.
        """
        if not self.four_eyes(call):
            return ""
        if call.user_id is None:
            return UNKNOWN_CALLER
        if getattr(actor, "pk", None) is None:
            return "Only another user can approve this call."
        part = self._part_of(call, actor)
        return f"{part}: another user has to approve it." if part else ""

    def _part_of(self, call: Call, actor: Any) -> str:
        """Return the user's part in a call as the beginning of a sentence, or ""."""
        decides = str(actor.pk)
        if decides in (str(call.user_id), actor_of(call.principal)):
            return "You asked for this call yourself"
        if decides in retriers_of(call):
            return "You had this call made again"
        if any(change.actor == decides for change in self._changes_of(call)):
            return f"You changed {call.tool} while this call waited"
        for maker in self._makers_of(call):
            if maker.may_be(actor):
                return f"You {maker.what}" if maker.user else f"You may be the one who {maker.what}"
        return ""

    def _changes_of(self, call: Call) -> Iterable[_Change]:
        rows, seen = self._rows_of(call), call.catalogue_revision or 0
        keys, ids = {call.tool, *(row.name for row in rows)}, {row.pk for row in rows}
        return (
            change
            for change in self._changes
            if change.revision > seen and (change.key in keys or change.entry_id in ids)
        )

    def _rows_of(self, call: Call) -> list[Tool]:
        """Return the rows of a call's tool and, for a preset, of the tool behind it."""
        tool = self._tools.get(call.tool)
        return [row for row in (tool, tool and source_of(tool).base_of(tool)) if row is not None]

    def _makers_of(self, call: Call) -> list[Maker]:
        """Return the users who created the credentials behind a call.

        Read when needed: few calls need four eyes.
        """
        others = {*retriers_of(call), *(change.actor for change in self._changes_of(call) if change.actor)}
        place = (call.api_key_id, call.connection_id, frozenset(others))
        if place not in self._makers:
            found = [] if call.api_key_id is None else self._makers_of_key(call.api_key_id)
            if call.connection_id is not None:
                found += makers_of_connections(Q(pk=call.connection_id)).values()
            self._makers[place] = [*found, *(maker for user in others for maker in makers_of_user(user))]
        return self._makers[place]

    def _makers_of_key(self, key_id: int) -> list[Maker]:
        """Return the issuer of a key.

        If the key's own user issued it, also return who created that user's credentials.
        """
        key = self._keys.get(key_id)
        if key is None:
            return []
        made = maker_of_key(key)
        return [made, *(makers_of_user(key.user_id, key.created_at) if made.user == str(key.user_id) else ())]

    def _read_tools(self) -> None:
        names = {call.tool for call in self._calls}
        tools = rows_of(Tool).filter(name__in=names)
        self._tools = {tool.name: tool for tool in tools}
        seen = [call.catalogue_revision for call in self._calls if call.catalogue_revision is not None]
        later = CatalogueChange.objects.filter(kind="tool", revision__gt=min(seen, default=0)).order_by()
        changes = later.values_list("key", "entry_id", "revision", "actor_id") if seen else ()
        self._changes = [_Change(key, pk, revision, str(actor or "")) for key, pk, revision, actor in changes]

    def _read_askers(self) -> None:
        calls = self._calls
        users = {str(call.user_id) for call in calls if call.user_id is not None}
        users |= {actor for call in calls if (actor := actor_of(call.principal))}
        found = get_user_model()._default_manager.filter(pk__in=users, is_active=True)
        self._active = {str(pk) for pk in found.values_list("pk", flat=True)}
        keys = {call.api_key_id for call in calls if call.api_key_id is not None}
        self._keys = ApiKey.objects.in_bulk(keys)
        sessions = Session.objects.filter(pk__in={call.session_id for call in calls}, ended_at__isnull=False)
        self._ended_sessions = set(sessions.values_list("pk", flat=True))
        numbers = frozenset(call.connection_id for call in calls if call.connection_id is not None)
        self._ended_connections = tokens.ended(numbers) if numbers else frozenset()


def _had_user(call: Call) -> bool:
    return call.principal.startswith("user:")
