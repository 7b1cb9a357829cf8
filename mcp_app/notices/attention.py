"""Open tasks that need a person: calls to approve, stuck calls, new errors, drafts, keys and credentials."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.urls import NoReverseMatch, reverse

from mcp_app import conf
from mcp_app.auth.api_keys import ending_keys
from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal_names import principal_names
from mcp_app.catalogue.changes.services import PUBLISH
from mcp_app.database import clock
from mcp_app.execution.call_log import redactor
from mcp_app.execution.decisions import objections
from mcp_app.execution.stored.stuck_calls import WAITS_LONG, long_waiting_calls, lost_calls
from mcp_app.interface.text import marked
from mcp_app.message_log.triage import needing_attention, state_of
from mcp_app.models import Call, Credential, Draft, Triage
from mcp_app.protocol.call_state import State

APPROVALS, STUCK, ERRORS, DRAFTS, KEYS = "approvals", "stuck", "errors", "drafts", "keys"
CREDENTIALS = "credentials"
KINDS: Final = {
    APPROVALS: "calls waiting for approval",
    STUCK: "stuck background calls",
    ERRORS: "new errors",
    DRAFTS: "unpublished drafts",
    KEYS: "API keys that expire soon",
    CREDENTIALS: "credentials that another server refused",
}
# Permissions that a user needs to act on each kind of task.
PERMISSIONS: Final = {
    APPROVALS: ("mcp_app.decide_call", "mcp_app.view_call"),
    STUCK: ("mcp_app.change_call", "mcp_app.view_call"),
    ERRORS: ("mcp_app.view_message",),
    DRAFTS: (PUBLISH,),
    KEYS: ("mcp_app.view_apikey",),
    CREDENTIALS: ("mcp_app.view_credential",),
}
# Maximum number of tasks per kind. The linked page shows the others.
MOST: Final = 200
# A refused credential is an open task for this time after the last refusal.
REFUSED_FOR: Final = timedelta(days=1)
# What happened to an error that was resolved or muted.
CAME_BACK: Final = {"regressed": "happened again after it was resolved", "worse": "got worse while muted"}
SAID: Final = 120
LONGEST_ARGUMENTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Attention:
    """An open task.

    ``text`` contains no arguments. Of the data that a caller chose, it contains only the caller's name.
    """

    kind: str
    key: str
    text: str
    url: str
    call: Call | None = None


def present(kinds: Collection[str]) -> list[Attention]:
    """Return all open tasks of these kinds, whichever user may act on them."""
    found = {
        ERRORS: _errors,
        STUCK: _stuck,
        APPROVALS: _approvals,
        DRAFTS: _drafts,
        KEYS: _keys,
        CREDENTIALS: _credentials,
    }
    return [need for kind, find in found.items() if kind in kinds for need in find()]


def for_person(user: Any, needs: Collection[Attention]) -> list[Attention]:
    """Return those tasks that this user may view and act on now."""
    if not (user.is_active and user.is_staff):
        return []
    has = permissions_of(user)
    allowed = {kind for kind, names in PERMISSIONS.items() if all(name in has for name in names)}
    found = [need for need in needs if need.kind in allowed]
    objected = objections([need.call for need in found if need.call is not None], user)
    return [need for need in found if need.call is None or not objected[need.call.pk]]


def arguments_of(need: Attention) -> str:
    """Return the redacted arguments of a call, or "" if NOTIFY_ARGUMENTS is off or the task has no call."""
    if need.call is None or not conf.get().notify_arguments:
        return ""
    text = Call.objects.values_list("arguments", flat=True).get(pk=need.call.pk)
    clean = redactor().message(text.encode("utf-8", "replace"), 1 << 30)
    return clean if len(clean) <= LONGEST_ARGUMENTS else clean[:LONGEST_ARGUMENTS] + "…"


def absolute_url(path: str) -> str:
    """Return the absolute address of a page, for messages that are read outside the site."""
    return f"{conf.get().public_url.rstrip('/')}{path}"


def _approvals() -> Iterator[Attention]:
    waiting = Call.objects.filter(state=State.APPROVAL_NEEDED).select_related("user")
    long = ("arguments", "answer", "meta", "session_fields")
    calls = list(waiting.defer(*long).order_by("-accepted_at")[:MOST])
    names = principal_names({call.principal for call in calls})
    for call in calls:
        who = marked(names.get(call.principal, call.principal))
        text = f"{who} requests approval to run {marked(call.tool)}"
        yield Attention(APPROVALS, f"call:{call.pk}", text, _page("call_change", call.pk), call)


def _errors() -> Iterator[Attention]:
    for group in needing_attention(clock.utcnow()).order_by("-first_at")[:MOST]:
        # The text of the error is left out, because it may contain arguments.
        state, name = state_of(group), marked(group.tool or group.method)
        # An error that was triaged and came back is another task than when it was new.
        key = f"error:{group.pk}" if state == Triage.OPEN else f"error:{group.pk}:{_stamp(group.triaged_at)}"
        text = f"Error in {name} {CAME_BACK[state]}" if state in CAME_BACK else f"New error in {name}"
        yield Attention(ERRORS, key, text, _page("message_error", group.pk))


def _stamp(at: datetime | None) -> str:
    return "" if at is None else f"{at.timestamp():.0f}"


def _drafts() -> Iterator[Attention]:
    for draft in Draft.objects.order_by("-updated_at")[:MOST]:
        text = f"Unpublished draft of {marked(draft.kind)} {marked(draft.key)[:SAID]}"
        yield Attention(DRAFTS, f"draft:{draft.pk}:{draft.version}", text, _page("draft_changelist"))


def _stuck() -> Iterator[Attention]:
    names = ("pk", "tool", "attempt")
    for pk, tool, attempt in lost_calls().values_list(*names).order_by("-accepted_at")[:MOST]:
        text = f"Stuck call of {marked(tool)}: its worker was lost"
        yield Attention(STUCK, f"lost:{pk}:{attempt}", text, _page("call_change", pk))
    for pk, tool, attempt in long_waiting_calls().values_list(*names).order_by("-accepted_at")[:MOST]:
        minutes = WAITS_LONG.total_seconds() / 60
        text = f"Stuck call of {marked(tool)}: waiting for a worker for {minutes:.0f} minutes"
        yield Attention(STUCK, f"waits:{pk}:{attempt}", text, _page("call_change", pk))


def _keys() -> Iterator[Attention]:
    rows = ending_keys().order_by("expires_at").values_list("pk", "name", "expires_at")
    for pk, name, ends in rows[:MOST]:
        assert ends is not None  # The query returns only API keys that expire.
        text = f"API key {marked(name)[:SAID]} expires on {ends.astimezone(UTC):%Y-%m-%d}"
        yield Attention(KEYS, f"key:{pk}:{ends.timestamp():.0f}", text, _page("apikey_change", pk))


def _credentials() -> Iterator[Attention]:
    since = clock.utcnow() - REFUSED_FOR
    rows = Credential.objects.filter(last_error_at__gte=since).exclude(last_error="").order_by("name")
    for pk, name, at in rows.values_list("pk", "name", "last_error_at")[:MOST]:
        assert at is not None  # The query returns only credentials with an error.
        # The key changes once a day, so that a credential is notified about at most once a day.
        key = f"credential:{pk}:{at.astimezone(UTC):%Y-%m-%d}"
        text = f"Another server refused the credential {marked(name)}"
        yield Attention(CREDENTIALS, key, text, _page("credential_change", pk))


def page_of_choices() -> str:
    """Return the address of the page on which users choose their notifications."""
    return _address("mcp_notifications")


def _page(name: str, *args: Any) -> str:
    return _address(f"admin:mcp_app_{name}", *args)


def _address(view: str, *args: Any) -> str:
    try:
        return reverse(view, args=args)
    except NoReverseMatch:
        return "/"  # The project has no URLs for Django's admin.
