"""Fill in the other data of such an installation: users, keys, entries, changes, approvals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import F
from django.utils import timezone

from mcp_app.models import (
    ApiKey,
    AuditEvent,
    Call,
    CatalogueChange,
    Prompt,
    Resource,
    SavedSearch,
    StoredSource,
    Tool,
)

# Principals of the log are ``user:0/key:1`` to ``user:499/key:1``: all except the first are users.
PEOPLE = 500
GROUPS = 20
ENTRIES = 300
CHANGES = 20_000
EVENTS = 100_000
SEARCHES = 200
DECIDED, WAITING = 5_000, 300
# The oldest calls are decided and the newest are pending, in the state that the fill of calls created.
BATCH = 5_000


def fill_beside(root: Any, tools: int) -> None:
    """Create everything except the traffic, whose calls exist already."""
    people = _people(root)
    _entries(tools)
    _changes(root)
    SavedSearch.objects.bulk_create(
        SavedSearch(user=people[n % 20] if n % 4 else root, name=f"Search {n}", shared=n % 2 == 0,
                    text=f"tool:tool_{n % tools} status:error since:{n % 7 + 1}d")
        for n in range(SEARCHES)
    )  # fmt: skip
    _approvals(people)


def _people(root: Any) -> list[Any]:
    users, now = get_user_model().objects, timezone.now()
    groups = Group.objects.bulk_create(Group(name=f"team {n}") for n in range(GROUPS))
    may_view = Permission.objects.get(codename="view_tool", content_type__app_label="mcp_app")
    for group in groups[:2]:
        group.permissions.add(may_view)
    people = users.bulk_create(
        get_user_model()(username=f"person{n:04}", email=f"person{n:04}@example.com", is_staff=n % 10 == 0)
        for n in range(1, PEOPLE)
    )
    membership = get_user_model().groups.through
    membership.objects.bulk_create(
        membership(user_id=person.pk, group_id=groups[n % GROUPS].pk) for n, person in enumerate(people)
    )
    ApiKey.objects.bulk_create(
        ApiKey(user=person, name=f"laptop {n}", prefix=f"mcp_{n:08}", secret_hash=f"{n:064x}",
               expires_at=now + timedelta(days=n % 400) if n % 3 else None,
               revoked_at=now if n % 11 == 10 else None)
        for n, person in enumerate([root, *people, *people])
    )  # fmt: skip
    return people


def _entries(tools: int) -> None:
    """Create presets with the tool names in the log, and prompts and resources of administrators."""
    first = Tool.objects.filter(source=StoredSource.CODE).order_by("pk").first()
    assert first is not None, "the demo has tools"
    Tool.objects.bulk_create(
        Tool(name=f"tool_{n}", title=f"Tool {n}", description="Says something. " * 20, preset_of=first,
             input_schema={"type": "object", "properties": {}}, background=n % 10 == 0,
             permission="mcp_app.view_tool" if n % 3 == 0 else "")
        for n in range(tools)
    )  # fmt: skip
    Prompt.objects.bulk_create(
        Prompt(name=f"prompt_{n}", title=f"Prompt {n}", template="Tell {{who}}. " * 20,
               arguments=[{"name": "who", "required": True}])
        for n in range(ENTRIES)
    )  # fmt: skip
    Resource.objects.bulk_create(
        Resource(name=f"Note {n}", uri=f"notes://{n}", mime_type="text/plain", text="Be kind. " * 100)
        for n in range(ENTRIES)
    )


def _changes(root: Any) -> None:
    prompts = list(Prompt.objects.filter(source=StoredSource.ADMIN).values_list("pk", "name"))
    CatalogueChange.objects.bulk_create(
        (
            CatalogueChange(revision=n, kind="prompt", key=name, entry_id=pk, action="update", actor=root,
                            before={"title": f"{n}"}, after={"title": f"{n + 1}"}, why="better words")
            for n in range(CHANGES) for pk, name in [prompts[n % len(prompts)]]
        ),
        batch_size=BATCH,
    )  # fmt: skip
    AuditEvent.objects.bulk_create(
        (
            AuditEvent(actor=root, actor_name="root", action="api_key.issue" if n % 7 else "session.end",
                       object_kind="api_key", object_key=f"{n}", detail={"name": f"laptop {n}"})
            for n in range(EVENTS)
        ),
        batch_size=BATCH,
    )  # fmt: skip


def _approvals(people: list[Any]) -> None:
    """Create decided and pending approvals for some of the calls."""
    calls = Call.objects.order_by("accepted_at").values_list("pk", flat=True)
    decided, count = list(calls[:DECIDED]), calls.count()
    over = {"approval_until": F("accepted_at"), "decided_at": F("accepted_at"), "decided_by": people[0]}
    for start in range(0, len(decided), 500):
        for which, decision in ((slice(0, 400), "approved"), (slice(400, 500), "refused")):
            Call.objects.filter(pk__in=decided[start : start + 500][which]).update(**over, decision=decision)
    newest = list(calls[max(count - WAITING, 0) : count])
    Call.objects.filter(pk__in=newest).update(
        state="approval_needed", approval_until=timezone.now() + timedelta(days=1), finished_at=None,
        started_at=None, attempt=0, outcome="", answer="", user=people[1],
    )  # fmt: skip
