"""The approval of a call as its page shows it: state, times, and the actions that the user may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin.calls.callers import caller_of, names_of
from mcp_app.admin.markup import badge, span
from mcp_app.database import clock
from mcp_app.execution.decisions import objection_to
from mcp_app.models import Call, Tool
from mcp_app.protocol.call_state import State

TONES: Final = {
    "approved": "good",
    "refused": "bad",
    "expired": "warn",
    "cancelled": "warn",
    "waiting": "info",
}
# Limits the query behind a badge that every admin page shows.
MOST_WAITING: Final = 1_000
DECIDED: Final = (Call.Decision.APPROVED, Call.Decision.REFUSED)
# Number of earlier decisions listed on a call's page.
NEWEST: Final = 5


def waiting_count() -> int:
    """Return the number of calls that wait for approval, but at most ``MOST_WAITING``."""
    # Unordered, because SQLite would scan all calls in that order to find the few that wait.
    return Call.objects.filter(state=State.APPROVAL_NEEDED).order_by()[:MOST_WAITING].count()


def decision_of(call: Call) -> str:
    """Return ``waiting``, ``approved``, ``refused``, ``expired`` or ``cancelled``."""
    if call.decision:
        return str(call.decision)
    return "waiting" if call.state == State.APPROVAL_NEEDED else "cancelled"


def waited_for_approval(call: Call) -> timedelta:
    """Return the time from acceptance to decision.

    Without a decision, it ends when the call ended, or now.
    """
    end = call.decided_at or call.finished_at or clock.utcnow()
    return end - call.accepted_at


def time_left(call: Call) -> timedelta | None:
    """Return the time until the approval expires, or None if the call does not wait for approval."""
    if call.state != State.APPROVAL_NEEDED or call.approval_until is None:
        return None
    return call.approval_until - clock.utcnow()


@dataclass(frozen=True, slots=True)
class ApprovalCard:
    """The approval of a call for display, with the actions that the user may take."""

    badge: SafeString
    waited: str
    waits: bool
    may_decide: bool
    objection: str
    asked_by: str
    title: str
    description: str
    before: str
    earlier: list[Call]
    approve_url: str
    refuse_url: str


def shown(call: Call, request: HttpRequest, site: str) -> ApprovalCard | None:
    """Return the approval of a call for display, or None if the call does not need approval."""
    if call.approval_until is None:
        return None
    word = decision_of(call)
    waits = word == "waiting"
    may_decide = waits and request.user.has_perm("mcp_app.decide_call")
    urls = [reverse(f"{site}:mcp_app_approval_{verb}", args=[call.pk]) for verb in ("approve", "refuse")]
    return ApprovalCard(
        badge=badge(word, TONES[word]),
        waited=span(waited_for_approval(call)),
        waits=waits,
        may_decide=may_decide,
        objection=objection_to(call, request.user) if may_decide else "",
        asked_by=caller_of(call, names_of([call])),
        **_about(call, waits=waits),
        approve_url=urls[0],
        refuse_url=urls[1],
    )


def _about(call: Call, *, waits: bool) -> dict[str, Any]:
    """Return the tool's title and description as clients see them, and earlier decisions about its calls."""
    if not waits:
        return {"title": "", "description": "", "before": "", "earlier": []}
    title, description = described([call.tool]).get(call.tool, ("", ""))
    decided = Call.objects.filter(tool=call.tool, decision__in=DECIDED).select_related("user", "decided_by")
    newest = decided.defer("arguments", "answer", "meta", "session_fields").order_by("-decided_at")
    return {
        "title": title,
        "description": description,
        "before": Earlier([call]).words(call),
        "earlier": list(newest[:NEWEST]),
    }


def described(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Map each tool name to the title and description that clients see."""
    found = {}
    for tool in Tool.objects.filter(name__in=set(names)):
        definition = tool.definition if isinstance(tool.definition, dict) else {}
        title = tool.title or str(definition.get("title") or "")
        found[tool.name] = (title, tool.description or str(definition.get("description") or ""))
    return found


class Earlier:
    """Counts of earlier approvals and refusals, for the tools that a list of calls uses.

    One query reads all counts.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        tools = {call.tool for call in calls}
        decided = Call.objects.filter(approval_until__isnull=False, tool__in=tools, decision__in=DECIDED)
        rows = decided.order_by().values_list("tool", "user_id", "decision").annotate(number=Count("pk"))
        self._of_user: Counter[tuple[str, Any, str]] = Counter()
        self._of_tool: Counter[tuple[str, str]] = Counter()
        for tool, user, decision, number in rows:
            self._of_user[tool, user, decision] += number
            self._of_tool[tool, decision] += number

    def words(self, call: Call) -> str:
        """Return text such as ``12 approved, 1 refused; of the same person 3 approved, 0 refused``.

        Returns "" if no call of the tool has been decided.
        """
        all_of_it = [self._of_tool[call.tool, word] for word in DECIDED]
        if not any(all_of_it):
            return ""
        theirs = [self._of_user[call.tool, call.user_id, word] for word in DECIDED]
        words = "{} approved, {} refused".format
        if call.user_id is None or theirs == all_of_it:
            return words(*all_of_it)
        return f"{words(*all_of_it)}; of the same person {words(*theirs)}"
