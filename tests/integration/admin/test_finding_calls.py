"""Finding calls by their arguments, and objects of a user by name (S14, S22)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from mcp_app.admin.calls import argument_search
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.models import Call, Session
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import RUNNING, Seed, background_call, undecided_call

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

# A number that no random id contains.
ORDER = json.dumps({"order": 104_131_985_321, "note": "Gift wrap"})


def found(client: Client, text: str) -> list[dict[str, str]]:
    answer = client.get(reverse("mcp_find"), {"q": text, "format": "json"})
    listed: list[dict[str, str]] = answer.json()["found"]
    return listed


def listed(client: Client, model: str, text: str, **more: str) -> set[Any]:
    answer = client.get(page(model, "changelist"), {"q": text, **more})
    return {call.pk for call in answer.context["cl"].result_list}


def operator(*permissions: str) -> Client:
    user = get_user_model().objects.create_user("operator", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.parametrize("text", ["104131985321", "gift wrap", "refund 104131985321", '"order":'])
def test_pending_calls_are_found_by_words_of_their_arguments(text: str, root: Client, seeded: Seed) -> None:
    stored = ORDER.replace(": ", ":")
    waiting = undecided_call("s", 70, tool="refund", arguments=stored)
    running = background_call("s", 71, tool="refund", arguments=stored, state="running", **RUNNING)
    over = background_call("s", 72, tool="refund", arguments=stored)
    urls = [each["url"] for each in found(root, text) if each["kind"] == "background call"]
    assert set(urls) == {page("call", "change", call.pk.hex) for call in (waiting, running)}
    assert listed(root, "call", text) == {waiting.pk, running.pk, over.pk}
    assert listed(root, "approval", text) == {waiting.pk}
    assert listed(root, "approval", text, decision="any") == {waiting.pk}
    assert listed(root, "call", text, state="completed") == {over.pk}


def test_redacted_and_long_arguments_are_not_searchable(root: Client, seeded: Seed) -> None:
    undecided_call("s", 70, arguments=json.dumps({"password": "sesame-10413", "shelf": "opened"}))
    long = undecided_call("s", 71, arguments=json.dumps({"text": "sesame-10413 " * 2_000}))
    assert len(long.arguments) > argument_search.LONGEST
    for text in ("sesame-10413", "sesame opened"):
        assert not [each for each in found(root, text) if each["kind"] == "background call"]
        assert not listed(root, "call", text)
        assert not listed(root, "approval", text)


@pytest.mark.parametrize("guess", ["sesame-10413", "mallow-10413"])
def test_result_count_does_not_reveal_a_guessed_secret(
    guess: str, root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both guesses match as many calls as a list shows, behind a newer call with one of them as a secret."""
    for module in ("calls.argument_search", "search.traffic"):
        monkeypatch.setattr(f"mcp_app.admin.{module}.MOST_FOUND", 2)
    undecided_call("s", 70, arguments=json.dumps({"password": "sesame-10413"}))
    said = json.dumps({"text": "sesame-10413 mallow-10413"})
    calls = {undecided_call("s", number, arguments=said).pk for number in (71, 72)}
    assert listed(root, "call", guess) == calls
    assert listed(root, "approval", guess) == calls
    urls = {each["url"] for each in found(root, guess) if each["kind"] == "background call"}
    assert urls == {page("call", "change", pk.hex) for pk in calls}


def test_call_list_searches_the_newest_calls_only(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.admin.long_lists.MOST_LISTED", 3)
    Call.objects.all().delete()
    calls = [undecided_call("s", number, arguments=ORDER, decision="refused") for number in range(5)]
    newest = {call.pk for call in calls[:3]}
    assert listed(root, "call", "104131985321") == newest
    assert listed(root, "approval", "104131985321", decision="refused") == newest
    # All pending calls are searched, because each needs a decision.
    assert listed(root, "approval", "104131985321") == {call.pk for call in calls}
    for model in ("call", "approval"):
        assert "nly the latest 10,000" in root.get(page(model, "changelist")).content.decode()


def test_pending_calls_are_not_queried_in_order_of_all_calls(root: Client, seeded: Seed) -> None:
    undecided_call("s", 70, arguments=ORDER)
    with CaptureQueriesContext(connection) as captured:
        assert listed(root, "approval", "104131985321")
    waiting = [each["sql"] for each in captured if "approval_needed" in each["sql"]]
    assert len(waiting) > 3
    assert not [sql for sql in waiting if 'ORDER BY "mcp_app_call"."accepted_at"' in sql]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads a table of a few rows whole")
def test_decided_call_lists_use_an_index(root: Client, seeded: Seed) -> None:
    undecided_call("s", 70, state="cancelled", decision="refused")
    with CaptureQueriesContext(connection) as captured:
        for decision in ("approved", "refused", "expired"):
            root.get(page("approval", "changelist"), {"decision": decision})
    asked = [each["sql"] for each in captured if '"mcp_app_call"."decision"' in each["sql"]]
    assert len(asked) > 3
    with connection.cursor() as cursor:
        for sql in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plan = "; ".join(row[3] for row in cursor)
            assert "SCAN mcp_app_call" not in plan
            assert "USING INDEX call_decided" in plan or "USING COVERING INDEX call_decided" in plan, plan


def test_user_name_finds_objects_without_the_view_user_permission(seeded: Seed) -> None:
    eve = get_user_model().objects.create_user("eve")
    key, _ = issue_api_key(user=eve, name="laptop")
    principal = f"user:{eve.pk}/key:{key.pk}"
    Session.objects.filter(pk=seeded.session.pk).update(principal=principal, user=eve)
    call = background_call(seeded.session.pk, 70, principal=principal, user=eve)
    client = operator("view_session", "view_call", "view_apikey")
    urls = {each["kind"]: each["url"] for each in found(client, "eve") if each["kind"] != "document"}
    assert urls == {
        "session": page("session", "change", seeded.session.pk),
        "background call": page("call", "change", call.pk.hex),
        "API key": page("apikey", "change", key.pk),
    }
    assert listed(client, "session", "eve") == {seeded.session.pk}
    assert listed(client, "call", "eve") == {call.pk}


def test_user_name_finds_only_permitted_objects(seeded: Seed) -> None:
    call = background_call(seeded.session.pk, 70, principal=f"user:{seeded.root.pk}/key:1", user=seeded.root)
    assert call.user == seeded.root
    assert {each["kind"] for each in found(operator("view_tool"), "root")} <= {"document", "tool", "page"}


def test_search_box_describes_only_permitted_kinds(root: Client, seeded: Seed) -> None:
    def said(client: Client) -> dict[str, str]:
        answer: dict[str, str] = client.get(reverse("mcp_find"), {"format": "json"}).json()
        return answer

    whole = "Find a tool, prompt, resource, session, call, message, key, setting, user, page or help page"
    assert said(root)["promised"] == whole
    whole = "The search covers the latest 1,000 sessions and the latest 500 finished calls."
    assert said(root)["bounds"] == whole
    client = operator("view_session")
    assert said(client)["promised"] == "Find a session, page or help page"
    assert said(client)["bounds"] == "The search covers the latest 1,000 sessions."
    page = client.get(reverse("mcp_find")).content.decode()
    assert 'placeholder="Find a session, page or help page"' in page
