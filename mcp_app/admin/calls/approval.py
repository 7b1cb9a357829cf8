"""The approval of a call as its page shows it: state, times, and the actions that the user may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app.admin.markup import badge, span
from mcp_app.catalogue.effects import Effect, declared_effect
from mcp_app.catalogue.sources.lookup import rows_of
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
NONE_EARLIER: Final = "no earlier decisions"
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


class AskedTool(NamedTuple):
    """The tool of a call as clients see it."""

    title: str
    description: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class ApprovalCard:
    """The approval of a call for display, with the actions that the user may take."""

    badge: SafeString
    waited: str
    waits: bool
    may_decide: bool
    objection: str
    tool: AskedTool
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
        **_about(call, waits=waits),
        approve_url=urls[0],
        refuse_url=urls[1],
    )


def _about(call: Call, *, waits: bool) -> dict[str, Any]:
    """Return the tool as clients see it, and earlier decisions about its calls."""
    if not waits:
        return {"tool": NOT_SHOWN, "before": "", "earlier": []}
    decided = Call.objects.filter(tool=call.tool, decision__in=DECIDED).select_related("user", "decided_by")
    newest = decided.defer("arguments", "answer", "meta", "session_fields").order_by("-decided_at")
    return {
        "tool": asked_tools([call.tool]).get(call.tool, NOT_SHOWN),
        "before": Earlier([call]).words(call),
        "earlier": list(newest[:NEWEST]),
    }


NOT_SHOWN: Final = AskedTool("", "", Effect.UNKNOWN)


def asked_tools(names: Iterable[str]) -> dict[str, AskedTool]:
    """Map each tool name to the tool as clients see it, in one query."""
    found = {}
    for tool in rows_of(Tool).filter(name__in=set(names)):
        definition = tool.definition if isinstance(tool.definition, dict) else {}
        title = tool.title or str(definition.get("title") or "")
        description = tool.description or str(definition.get("description") or "")
        found[tool.name] = AskedTool(title, description, declared_effect(tool))
    return found


class Earlier:
    """Counts of earlier approvals and refusals, for the tools that a list of calls uses.

    For a call that no longer waits, only decisions made before it ended its wait count. One query reads all
    counts.
    """

    def __init__(self, calls: Collection[Call]) -> None:
        tools = {call.tool for call in calls}
        ends = sorted({end for call in calls if (end := _end_of_wait(call))})
        decided = Call.objects.filter(approval_until__isnull=False, tool__in=tools, decision__in=DECIDED)
        before = {f"before_{at}": Count("pk", filter=Q(decided_at__lt=end)) for at, end in enumerate(ends)}
        grouped = decided.order_by().values_list("tool", "user_id", "decision")
        self._of_user: Counter[tuple[str, Any, str, datetime | None]] = Counter()
        self._of_tool: Counter[tuple[str, str, datetime | None]] = Counter()
        for tool, user, decision, *numbers in grouped.annotate(number=Count("pk"), **before):
            for end, number in zip((None, *ends), numbers, strict=True):
                self._of_user[tool, user, decision, end] += number
                self._of_tool[tool, decision, end] += number

    def words(self, call: Call) -> str:
        """Return the earlier decisions about the user's calls of the tool, followed by those about others.

        An example is ``this user: 3 approved, 1 refused · other users: 2 approved``. If the user of the
        call is unknown, the decisions about all calls of the tool count.
        """
        tool, user, end = call.tool, call.user_id, _end_of_wait(call)
        of_all = [self._of_tool[tool, word, end] for word in DECIDED]
        own = of_all if user is None else [self._of_user[tool, user, word, end] for word in DECIDED]
        others = [every - each for every, each in zip(of_all, own, strict=True)]
        if not any(own):
            return (
                f"this user: {NONE_EARLIER} · other users: {_counts(others)}" if any(others) else NONE_EARLIER
            )
        shown = f"{'all users' if user is None else 'this user'}: {_counts(own)}"
        return f"{shown} · other users: {_counts(others)}" if any(others) else shown


def _end_of_wait(call: Call) -> datetime | None:
    return call.decided_at or call.finished_at


def _counts(numbers: Iterable[int]) -> str:
    """Return text such as ``3 approved, 1 refused``."""
    found = zip(DECIDED, numbers, strict=True)
    return ", ".join(f"{number:,} {decision}" for decision, number in found if number)
