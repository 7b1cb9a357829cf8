"""The approval of one call as pages show it: its state, its times, and what this user may do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from mcp_app import database_clock
from mcp_app.admin.calls.askers import actors_of, asked_by
from mcp_app.admin.markup import badge, span
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
# A badge on every page must not count for long.
MOST_WAITING: Final = 1_000


def waiting_count() -> int:
    """How many calls wait for approval now; MOST_WAITING stands for that many and more."""
    return Call.objects.filter(state=State.APPROVAL_NEEDED)[:MOST_WAITING].count()


def decision_of(call: Call) -> str:
    """``waiting``, ``approved``, ``refused``, ``expired`` or ``cancelled``."""
    if call.decision:
        return str(call.decision)
    return "waiting" if call.state == State.APPROVAL_NEEDED else "cancelled"


def waited_for_approval(call: Call) -> timedelta:
    """How long it waited for a decision, or has waited so far."""
    end = call.decided_at or call.finished_at or database_clock.utcnow()
    return end - call.accepted_at


def time_left(call: Call) -> timedelta | None:
    """How long it may still wait."""
    if call.state != State.APPROVAL_NEEDED or call.approval_until is None:
        return None
    return call.approval_until - database_clock.utcnow()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page of one call says about its approval, and what this user may do about it."""

    badge: SafeString
    waited: str
    waits: bool
    may_decide: bool
    objection: str
    asked_by: str
    title: str
    description: str
    before: dict[str, int] | None
    approve_url: str
    refuse_url: str


def shown(call: Call, request: HttpRequest, site: str) -> Shown | None:
    """The approval of a call; None for one that needs none."""
    if call.approval_until is None:
        return None
    word = decision_of(call)
    waits = word == "waiting"
    may_decide = waits and request.user.has_perm("mcp_app.decide_call")
    urls = [reverse(f"{site}:mcp_app_approval_{verb}", args=[call.pk]) for verb in ("approve", "refuse")]
    return Shown(
        badge=badge(word, TONES[word]),
        waited=span(waited_for_approval(call)),
        waits=waits,
        may_decide=may_decide,
        objection=objection_to(call, request.user) if may_decide else "",
        asked_by=asked_by(call, actors_of([call])),
        **_about(call, waits=waits),
        approve_url=urls[0],
        refuse_url=urls[1],
    )


def _about(call: Call, *, waits: bool) -> dict[str, Any]:
    """What the tool is, as clients see it, and how often its calls were approved and refused before."""
    tool = Tool.objects.filter(name=call.tool).first() if waits else None
    if tool is None:
        return {"title": "", "description": "", "before": None}
    definition = tool.definition if isinstance(tool.definition, dict) else {}
    decided = Call.objects.filter(tool=call.tool, decision__in=("approved", "refused"))
    words = list(decided.order_by("-decided_at").values_list("decision", flat=True)[:MOST_WAITING])
    return {
        "title": tool.title or str(definition.get("title") or ""),
        "description": tool.description or str(definition.get("description") or ""),
        "before": {word: words.count(word) for word in ("approved", "refused")} if words else None,
    }
