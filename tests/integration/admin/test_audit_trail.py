"""The audit trail in the admin: the events of one object, reached from the history of its row."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.template import Context, Template
from django.test import Client
from django.urls import reverse

from mcp_app.admin.audit import WORDS, in_words, recent_actions
from mcp_app.models import ApiDocument, ApiKey, AuditEvent, Credential, audit
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("mcp_app_apikey", "api_key"),
        ("mcp_app_credential", "credential"),
        ("mcp_app_apidocument", "document"),
        ("auth_user", "user"),
    ],
)
def test_history_of_a_row_leads_to_its_events_in_the_audit_trail(
    model: str, kind: str, root: Client, seeded: Seed
) -> None:
    made: dict[str, Any] = {
        "credential": lambda: Credential.objects.create(name="shop", kind="bearer"),
        "document": lambda: ApiDocument.objects.create(name="shop"),
        "api_key": lambda: seeded.key,
        "user": lambda: seeded.root,
    }
    row = made[kind]()
    for key in (str(row), f"{row} 2"):
        audit(actor=seeded.root, action=f"{kind}.x", object_kind=kind, object_key=key)
    answer = root.get(reverse(f"admin:{model}_history", args=[row.pk]))
    trail = answer.context["trail_url"]
    assert answer.context["title"] == f"History of {row}"
    assert "It probably wasn" not in answer.content.decode()
    events = list(root.get(trail).context["cl"].result_list)
    assert {(event.object_kind, event.object_key) for event in events} == {(kind, str(row))}
    assert root.get(page("auditevent", "history", events[0].pk))["Location"] == trail


def test_history_with_entries_names_the_trail(root: Client, seeded: Seed) -> None:
    kind = ContentType.objects.get_for_model(seeded.key)
    LogEntry.objects.create(
        user=seeded.root, content_type=kind, object_id=seeded.key.pk, action_flag=ADDITION
    )
    text = root.get(page("apikey", "history", seeded.key.pk)).content.decode()
    assert "1 entry" in text
    assert "Changes by other buttons, by the REST API and by commands are in the audit trail." in text


def test_recent_actions_are_those_of_the_trail_and_of_other_applications(root: Client, seeded: Seed) -> None:
    audit(actor=seeded.root, action="api_key.replace", object_kind="api_key", object_key="laptop")
    audit(actor=seeded.viewer, action="api_key.replace", object_kind="api_key", object_key="of another")
    for model, name in ((Group, "Support"), (ApiKey, "audited")):
        kind = ContentType.objects.get_for_model(model)
        LogEntry.objects.create(
            user=seeded.root, content_type=kind, object_id="1", object_repr=name, action_flag=ADDITION
        )
    shown = [(each.words, each.name) for each in recent_actions(seeded.root)]
    assert shown[:2] == [("Group added", "Support"), ("API key replaced", "laptop")]
    assert {name for _, name in shown}.isdisjoint({"of another", "audited"})
    text = root.get(reverse("admin:index")).content.decode()
    assert text.index("Your recent actions") < text.index("API key replaced")


def test_rows_and_filter_name_an_action_alike(root: Client, seeded: Seed) -> None:
    audit(actor=seeded.root, action="catalogue.created", object_kind="prompt", object_key="hello")
    shown = root.get(page("auditevent", "changelist"), {"q": "catalogue.created"}).content.decode()
    assert shown.count("entry added") >= 2
    assert "prompt added" not in shown


def test_trail_names_an_error_by_its_title(root: Client, seeded: Seed) -> None:
    detail = {"tool": "echo", "error": "ValueError"}
    audit(actor=seeded.root, action="error.mute", object_kind="error", object_key="0f" * 16, detail=detail)
    event = AuditEvent.objects.latest("id")
    shown = root.get(page("auditevent", "changelist"), {"q": "error.mute"}).content.decode()
    assert "echo: ValueError" in shown
    assert event.object_key not in shown
    one = root.get(page("auditevent", "change", event.pk)).content.decode()
    assert "Error muted: echo: ValueError" in one
    assert recent_actions(seeded.root)[0].name == "echo: ValueError"


def test_actions_on_openapi_documents_have_different_words() -> None:
    words = [text for action, text in WORDS.items() if action.startswith("document.")]
    assert len({*words}) == len(words)
    assert in_words("document.changed") == "settings of an OpenAPI document changed"
    assert in_words("document.newer") == "new version of an OpenAPI document received"


def test_trail_of_an_object_needs_the_permission_to_view_the_trail(viewer: Client, seeded: Seed) -> None:
    seeded.viewer.user_permissions.set(
        [each for each in seeded.viewer.user_permissions.all() if each.codename != "view_auditevent"]
    )
    answer = viewer.get(page("apikey", "history", seeded.key.pk))
    assert (answer.status_code, answer.context["trail_url"]) == (200, "")


@pytest.mark.parametrize(("number", "words"), [(1, "1 entry"), (2, "2 entries"), (120, "120 entries")])
def test_pages_of_the_audit_trail_count_entries(number: int, words: str, root: Client, seeded: Seed) -> None:
    for _ in range(number):
        audit(actor=seeded.root, action="key.x", object_kind="key", object_key="one")
    shown = root.get(page("auditevent", "changelist"), {"object": "key:one"})
    drawn = Context({"cl": shown.context["cl"], "opts": AuditEvent._meta})
    text = Template("{% load admin_list %}{% pagination cl %}").render(drawn)
    assert words in " ".join(text.split())
