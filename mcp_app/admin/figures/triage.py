"""Triage of an error on its page: the forms, their view, undo, and the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.dateparse import parse_date

from mcp_app.admin import undo
from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.markup import written
from mcp_app.auth.permissions import PermissionMissing, holders_of, may_view_people
from mcp_app.interface.text import marked
from mcp_app.message_log import triage
from mcp_app.message_log.triage import READS, Triaged, TriageError
from mcp_app.models import AuditEvent, ErrorGroup, Message, Triage

MOST_PEOPLE: Final = 200
MOST_EVENTS: Final = 50
MOST_TIMES: Final = 1_000_000
# What an action did, for the message and for the history.
DONE: Final = {
    "mute": "muted",
    "resolve": "resolved",
    "reopen": "reopened",
    "assign": "assigned",
    "undo": "undone",
}
# The label and the tone of each state but "open".
STATES: Final = {
    Triage.MUTED.value: ("muted", "plain"),
    Triage.RESOLVED.value: ("resolved", "good"),
    Triage.REGRESSED.value: ("happened again", "bad"),
    "worse": ("got worse", "bad"),
}


@dataclass(frozen=True, slots=True)
class TriageEvent:
    """A change of an error's triage in its history."""

    at: datetime
    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class TriagePart:
    """The part of an error's page with its state, its history, and the forms if the user may triage.

    ``people`` are the users to whom the error can be assigned, as pairs of key and name.
    """

    state: tuple[str, str] | None
    muted: str
    assignee: str
    address: str
    allowed: bool
    closed: bool
    people: list[tuple[Any, str]]
    history: list[TriageEvent]


def triage_part(error: ErrorGroup, user: Any) -> TriagePart:
    """Return the triage of an error for its page."""
    state, allowed = triage.state_of(error), user.has_perm(triage.PERMISSION)
    return TriagePart(
        STATES.get(state),
        _mute(error) if state == Triage.MUTED else "",
        "" if error.assignee is None else marked(error.assignee.get_username()),
        reverse("admin:mcp_app_message_triage", args=[error.pk]),
        allowed,
        error.triage != Triage.OPEN,
        _people(user) if allowed else [],
        _history(error),
    )


def _mute(error: ErrorGroup) -> str:
    """Return the end of a mute as text."""
    ends = []
    if error.muted_until is not None:
        ends.append(f"until {written(error.muted_until)}")
    if error.muted_count is not None:
        ends.append(f"until its count is {error.muted_count:,}")
    return " or ".join(ends)


def _people(user: Any) -> list[tuple[Any, str]]:
    """Return the staff users who may read messages, if the user may view people, else only the user."""
    if not may_view_people(user):
        return [(user.pk, user.get_username())]
    model: Any = get_user_model()
    staff = model._default_manager.filter(is_active=True, is_staff=True).order_by(model.USERNAME_FIELD)
    people = list(staff[:MOST_PEOPLE])
    readers = holders_of(READS, people)
    return [(each.pk, each.get_username()) for each in people if each.pk in readers]


def _history(error: ErrorGroup) -> list[TriageEvent]:
    events = AuditEvent.objects.filter(object_kind=triage.KIND, object_key=error.pk)[:MOST_EVENTS]
    return [TriageEvent(event.at, event.actor_name, _told(event)) for event in events]


def _told(event: AuditEvent) -> str:
    done = DONE.get(event.action.partition(".")[2], event.action)
    detail = event.detail
    if until := detail.get("muted_until"):
        done += f" until {written(datetime.fromisoformat(until))}"
    if count := detail.get("muted_count"):
        done += f" until its count is {count:,}"
    if event.action == "error.assign":
        done = f"assigned to {detail['assignee']}" if detail.get("assignee") else "unassigned"
    return done


class ErrorTriage(ModelAdmin[Message]):
    """The view that triages errors, for the admin of messages."""

    def get_urls(self) -> list[URLPattern]:
        address = path(
            "errors/<slug:digest>/triage/",
            self.admin_site.admin_view(self.triage_view),
            name="mcp_app_message_triage",
        )
        return [address, *super().get_urls()]

    def triage_view(self, request: HttpRequest, digest: str) -> HttpResponse:
        """Mute, resolve, reopen or assign an error, or undo that, as the submitted form asks."""
        if not (self.has_view_permission(request) and request.user.has_perm(triage.PERMISSION)):
            raise PermissionMissing(READS, triage.PERMISSION)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        address = reverse("admin:mcp_app_message_triage", args=[digest])
        try:
            if undo.FIELD in request.POST:
                self._undo(request, digest)
            else:
                done = _act(request, digest)
                after = {"before": done.before, "after": triage.values_of(done.error)}
                note = undo.signed_action(request, f"error.{digest}", after)
                text = undo.with_undo(request, _said(request, done), address, note)
                self.message_user(request, text, messages.SUCCESS)
        except TriageError as error:
            self.message_user(request, str(error), messages.WARNING)
        return HttpResponseRedirect(reverse("admin:mcp_app_message_error", args=[digest]))

    def _undo(self, request: HttpRequest, digest: str) -> None:
        note = undo.read(request, f"error.{digest}")
        if note is None:
            raise TriageError("This cannot be undone any more.")
        triage.restore(digest=digest, actor=request.user, **note)
        self.message_user(request, "Undone.", messages.SUCCESS)


def _act(request: HttpRequest, digest: str) -> Triaged:
    """Carry out the action of the submitted form. Raise TriageError."""
    match request.POST.get("action"):
        case "resolve":
            return triage.resolve(digest=digest, actor=request.user)
        case "reopen":
            return triage.reopen(digest=digest, actor=request.user)
        case "mute":
            until, times = _until(request.POST.get("until", "")), _times(request.POST.get("times", ""))
            return triage.mute(digest=digest, actor=request.user, until=until, times=times)
        case "assign":
            return triage.assign(digest=digest, actor=request.user, assignee=_assignee(request))
    raise TriageError("The form is not complete.")


def _said(request: HttpRequest, done: Triaged) -> str:
    name = marked(done.error.tool or done.error.method)
    action = DONE[request.POST["action"]]
    if action == DONE["assign"] and done.error.assignee_id is None:
        action = "unassigned"
    return f"The error in {name} was {action}."


def _until(text: str) -> datetime | None:
    """Return the start of a day in the user's time zone, or None for an empty text."""
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise TriageError("The date must be such as 2026-11-30.")
    return datetime(day.year, day.month, day.day, tzinfo=timezone.get_current_timezone())


def _times(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and 0 < int(text) <= MOST_TIMES):
        raise TriageError(f"The number of further errors must be between 1 and {MOST_TIMES:,}.")
    return int(text)


def _assignee(request: HttpRequest) -> Any:
    """Return the chosen user, or None to unassign. Raise TriageError for any other user."""
    chosen = request.POST.get("assignee", "")
    if not chosen:
        return None
    model: Any = get_user_model()
    if chosen not in {str(key) for key, _ in _people(request.user)}:
        raise TriageError("Errors can be assigned only to staff users who may view messages.")
    return model._default_manager.get(pk=chosen)
