"""The cards of calls that wait for approval: arguments, effect of the tool, caller, earlier decisions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from mcp_app.admin.calls.given import LONG, MOST_SHOWN, given
from mcp_app.models import Call
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed, undecided_call
from tests.samples.approved_work import guarded_tool

QUEUE = "/admin/mcp_app/approval/"
HINTS: dict[str, dict[str, bool]] = {
    "reads": {"readOnlyHint": True},
    "changes": {"destructiveHint": False},
    "destroys": {"destructiveHint": True},
    "undeclared": {},
}


def _values(arguments: dict[str, Any]) -> dict[str, tuple[str, bool, bool]]:
    found = given(json.dumps(arguments))
    assert found is not None
    return {
        each.name.removeprefix('<bdi class="mcp-text">').removesuffix("</bdi>"): (
            str(each.value),
            each.short,
            bool(each.first),
        )
        for each in found.arguments
    }


def test_arguments_are_shown_as_names_and_values() -> None:
    shown = _values(
        {
            "order": "A-1003",
            "amount": 36.5,
            "paid": False,
            "note": None,
            "digits": "36.50",
            "empty": "",
            "list": [1, {"a": 2}],
            "long": "word " * 20,
            "longest": "word " * LONG,
            "lines": "one\ntwo",
        }
    )
    assert {name: value for name, (value, short, _) in shown.items() if short} == {
        "order": "A-1003",
        "amount": "36.5",
        "paid": "false",
        "note": "null",
        # A text that looks like another JSON value keeps its quotes.
        "digits": "&quot;36.50&quot;",
        "empty": "&quot;&quot;",
        "list": "[1,{&quot;a&quot;:2}]",
    }
    assert [name for name, (_, _, folded) in shown.items() if folded] == ["longest"]
    assert shown["lines"][0] == "one\ntwo"


def test_many_arguments_are_counted() -> None:
    found = given(json.dumps({f"argument {number}": number for number in range(MOST_SHOWN + 3)}))
    assert found is not None
    assert (len(found.arguments), found.more) == (MOST_SHOWN, 3)


@pytest.mark.parametrize("text", ["", "[1]", '{"cut": "of…'])
def test_other_texts_are_no_arguments(text: str) -> None:
    assert given(text) is None


@pytest.mark.parametrize(("name", "asks"), [("reads", 0), ("changes", 0), ("destroys", 1), ("undeclared", 1)])
def test_approval_of_a_tool_that_may_destroy_asks_first(
    name: str, asks: int, root: Client, seeded: Seed
) -> None:
    Call.objects.filter(approval_until__isnull=False).delete()
    guarded_tool(name, annotations=HINTS[name]).save(force_insert=True)
    call = undecided_call(seeded.session.pk, 70, user=seeded.root, tool=name)
    text = root.get(QUEUE).content.decode()
    assert text.count(f'<dialog class="mcp-decide" id="approve-{call.pk}"') == asks
    approve = f'formaction="{page("approval", "approve", call.pk)}?from_queue=1"'
    assert text.count(approve) == 1
    assert (text.index(approve) > text.index(f'commandfor="approve-{call.pk}"')) if asks else True
    assert (
        'data-sure="Approve this call?' in root.get(page("call", "change", call.pk)).content.decode()
    ) == bool(asks)


def test_tool_is_described_once(root: Client, seeded: Seed) -> None:
    Call.objects.filter(approval_until__isnull=False).delete()
    guarded_tool("shred", title="Shred", description="Shreds a document.").save(force_insert=True)
    for number in range(3):
        undecided_call(seeded.session.pk, 80 + number, user=seeded.root, tool="shred")
    text = root.get(QUEUE).content.decode()
    assert text.count("data-decision=") == 3
    assert text.count("Shreds a document.") == 1


def test_caller_links_to_pages_that_the_user_may_open(
    root: Client, client_of: ClientOf, seeded: Seed
) -> None:
    call = undecided_call(seeded.session.pk, 90, user=seeded.root, api_key_id=None)
    address = reverse("admin:auth_user_change", args=[seeded.root.pk])
    assert address in root.get(QUEUE).content.decode()
    seeded.viewer.user_permissions.set([])
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="view_call"))
    text = client_of("viewer").get(QUEUE).content.decode()
    assert str(call.pk) in text
    assert address not in text
    assert "data-approve" not in text
    assert "<dialog" not in text


def test_empty_queue_says_how_to_require_approval(root: Client, seeded: Seed) -> None:
    Call.objects.filter(approval_until__isnull=False).delete()
    answer = root.get(QUEUE)
    assert page("tool", "changelist") in answer.content.decode().partition("data-empty-queue")[2]
    assert "0 approvals" not in answer.content.decode()
    assert "data-empty-queue" not in root.get(f"{QUEUE}?q=nothing").content.decode()
