"""Owns the verdict of the first page: whether all is well, what waits for this visitor, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db.models import F
from django.http import HttpRequest
from django.urls import reverse

from mcp_app import database_clock
from mcp_app.admin.calls.approval import waiting_count
from mcp_app.catalogue.changing.services import may_publish
from mcp_app.models import ApiKey, Draft, Prompt, Resource, ResourceTemplate, Tool

# Counted up to here: the first page must not take long.
MOST_COUNTED: Final = 1_000
# Time enough to make another key and to hand it out.
KEY_ENDS_WITHIN: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Reason:
    """What is not as it should be, or waits for somebody, and the page on which it is dealt with."""

    text: str
    url: str = ""


@dataclass(slots=True)
class Verdict:
    """``faults`` are what keeps the installation from its work; ``tasks`` wait for this visitor."""

    faults: list[Reason] = field(default_factory=list)
    tasks: list[Reason] = field(default_factory=list)

    @property
    def word(self) -> str:
        """The answer to the first question of whoever opens the page."""
        if self.faults:
            return "Degraded"
        return "Needs you" if self.tasks else "Well"

    @property
    def tone(self) -> str:
        """``bad``, ``warn`` or ``good``."""
        if self.faults:
            return "bad"
        return "warn" if self.tasks else "good"


def tasks_of(request: HttpRequest) -> list[Reason]:
    """What waits for this visitor, who may do something about each of them."""
    return [*_approvals(request), *_drafts(request), *_changed_definitions(request), *_ending_keys(request)]


def _approvals(request: HttpRequest) -> Iterator[Reason]:
    if request.user.has_perm("mcp_app.decide_call") and (waiting := waiting_count()):
        yield Reason(_counted(waiting, "call waits", "calls wait") + " for approval", _page("approval"))


def _drafts(request: HttpRequest) -> Iterator[Reason]:
    if may_publish(request.user) and (waiting := Draft.objects.all()[:MOST_COUNTED].count()):
        yield Reason(_counted(waiting, "draft waits", "drafts wait") + " to be published", _page("draft"))


def _changed_definitions(request: HttpRequest) -> Iterator[Reason]:
    kinds: list[Any] = [Tool, Prompt, Resource, ResourceTemplate]
    for kind in kinds:
        name = kind._meta.model_name
        if not request.user.has_perm(f"mcp_app.change_{name}"):
            continue
        drifted = kind.objects.exclude(reviewed_hash="").exclude(reviewed_hash=F("definition_hash"))
        if changed := drifted[:MOST_COUNTED].count():
            one, many = kind._meta.verbose_name, kind._meta.verbose_name_plural
            text = _counted(changed, f"{one} was", f"{many} were") + " changed by code and not reviewed"
            yield Reason(text, f"{_page(name)}?drift=yes")


def _ending_keys(request: HttpRequest) -> Iterator[Reason]:
    if not request.user.has_perm("mcp_app.view_apikey"):
        return
    now = database_clock.utcnow()
    ending = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + KEY_ENDS_WITHIN)
    if number := ending[:MOST_COUNTED].count():
        text = _counted(number, "API key ends", "API keys end") + f" within {KEY_ENDS_WITHIN.days} days"
        yield Reason(text, f"{_page('apikey')}?state=active")


def _counted(number: int, one: str, many: str) -> str:
    if number == 1:
        return f"1 {one}"
    return f"{number:,}{' or more' if number >= MOST_COUNTED else ''} {many}"


def _page(name: str) -> str:
    return reverse(f"admin:mcp_app_{name}_changelist")
