"""The approval queue in the admin: single and bulk decisions, roles, hostile arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.auth.principal_names import principal_names
from mcp_app.auth.roles import make_roles
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.execution.background.celery import waiting
from mcp_app.models import ApiKey, AuditEvent, Call, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.integration.admin.test_hostile_text import Page
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, RAW_HIDDEN, RAW_MARKUP, Seed, undecided_call
from tests.samples.approved_work import guarded_tool

QUEUE = "/admin/mcp_app/approval/"


@pytest.fixture(autouse=True)
def _stored_tools(seeded: Seed) -> None:
    """Store the tools whose calls are approved here."""
    for name in ("discard", "shred"):
        guarded_tool(name).save(force_insert=True)


@pytest.fixture
def decider(client_of: ClientOf, seeded: Seed) -> Client:
    """Return a client of staff with the permissions to view and decide calls."""
    seeded.viewer.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="mcp_app", codename__in=["view_call", "decide_call"]
        )
    )
    return client_of("viewer")


@pytest.fixture
def offered(seeded: Seed) -> Iterator[None]:
    """Serve the seeded tools from this process; ``echo`` needs approval."""
    Tool.objects.filter(name="echo").update(needs_approval=True, four_eyes=True, approval_minutes=7)
    Call.objects.filter(pk=seeded.call.pk).update(arguments='{"text": "hi"}')
    before = current_snapshot.current()
    current_snapshot.refresh_now(force=True)
    yield
    current_snapshot.replace(before)


def _read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return "".join(Page(answer.content.decode()).read)


def _listed(client: Client, query: str = "") -> list[Any]:
    return [call.pk for call in client.get(QUEUE + query).context["cl"].result_list]


def _decide(client: Client, verb: str, call: Call, reason: str = "") -> str:
    address = page("approval", verb, call.pk)
    return client.post(address, {"reason": reason}, follow=True).content.decode()


def test_approval_queue_redacts_arguments_and_shows_time_left(root: Client, seeded: Seed) -> None:
    text = _read(root, QUEUE)
    assert "bookDune" in text
    assert "token[redacted]" in text
    assert "shelves[1,2,3]" in text
    assert "hunter2" not in text
    assert re.search(r"\b19 h \d+ min\b", text)
    assert "so no user can approve it" in text


def test_approval_pages_show_the_key_and_client_of_the_call(root: Client, seeded: Seed) -> None:
    key = seeded.undecided_call.principal
    names = principal_names([key])
    assert " · " in names[key]
    said = {"client": '{"name": "Till Assistant"}'}
    Call.objects.filter(pk=seeded.undecided_call.pk).update(session_fields=said)
    chosen = {"action": "approve_calls", "_selected_action": [seeded.undecided_call.pk]}
    looked_at = "".join(Page(root.post(QUEUE, chosen).content.decode()).read)
    queue = _read(root, QUEUE)
    for text in (queue, looked_at, _read(root, page("call", "change", seeded.undecided_call.pk))):
        assert names[key] in text
        assert "Till Assistant" in text
    # The principal key is shown for copying.
    assert key in queue


def test_approval_queue_sorts_by_expiry_and_filters_by_decision(root: Client, seeded: Seed) -> None:
    now = timezone.now()
    soon = undecided_call(seeded.session.pk, 20, approval_until=now + timedelta(minutes=1))
    decided = {
        word: undecided_call(
            seeded.session.pk, 21 + number, state="failed", decision=word, decided_at=now, finished_at=now
        ).pk
        for number, word in enumerate(("approved", "refused", "expired"))
    }
    gone = undecided_call(seeded.session.pk, 30, state="cancelled", finished_at=now).pk
    assert _listed(root)[0] == soon.pk
    assert len(_listed(root)) == 3
    for word, pk in decided.items():
        assert _listed(root, f"?decision={word}") == [pk]
    assert _listed(root, "?decision=cancelled") == [gone]
    assert len(_listed(root, "?decision=any")) == 7
    assert seeded.call.pk not in _listed(root, "?decision=any")
    assert _listed(root, "?q=discard") == [seeded.undecided_call.pk]


def test_approval_queue_query_count_is_constant_and_omits_long_arguments(root: Client, seeded: Seed) -> None:
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(QUEUE).status_code == 200
        return [query["sql"] for query in captured]

    before = queries()
    long = undecided_call(seeded.session.pk, 99, arguments='{"text": "%s"}' % ("palaver" * 10_000))
    for number in range(100, 120):
        undecided_call(seeded.session.pk, number, user=seeded.root)
    after = queries()
    assert len(after) == len(before)
    text = _read(root, QUEUE)
    assert "too long for a list" in text
    assert "palaver" not in text
    looked_at = root.post(QUEUE, {"action": "approve_calls", "_selected_action": [long.pk]}).content.decode()
    assert "too long for a list" in looked_at


def test_approved_call_is_enqueued_and_audited_with_the_decider(decider: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    queued = waiting("celery")
    text = _decide(decider, "approve", call, "  looks right ")
    # The user's name is not asserted: seed rows name users by id, and ids differ on PostgreSQL.
    assert re.search(r"The call of discard by .+ was approved\.", unescape(text))
    call.refresh_from_db()
    assert (call.state, call.decision, call.decision_reason) == ("accepted", "approved", "looks right")
    assert call.decided_by == seeded.viewer
    assert call.enqueued_at is not None
    event = AuditEvent.objects.get(action="call.approve")
    assert (event.object_key, event.actor_id, event.detail["reason"], event.detail["tool"]) == (
        str(call.pk), seeded.viewer.pk, "looks right", "discard",
    )  # fmt: skip
    assert "Decided by" in text
    assert waiting("celery") == queued  # Enqueued on commit, which this test never reaches.


def test_queue_row_shows_earlier_decisions_and_refuses_with_a_reason(decider: Client, seeded: Seed) -> None:
    call, now = seeded.undecided_call, timezone.now()
    assert "no earlier decisions" in _read(decider, QUEUE)
    decided = {"tool": call.tool, "state": "completed", "decided_at": now, "finished_at": now}
    words = {"decision_reason": "like every week", "decided_by": seeded.root}
    undecided_call(call.session_id, 60, user=call.user, decision="approved", **words, **decided)
    undecided_call(call.session_id, 61, user=seeded.viewer, decision="refused", **decided)
    said = "this user: 1 approved · other users: 1 refused"
    assert said in _read(decider, QUEUE)
    text = _read(decider, page("call", "change", call.pk))
    assert said in text
    assert "approved by root" in text
    assert "like every week" in text
    address = f"{page('approval', 'refuse', call.pk)}?from_queue=1"
    other = {f"reason-{uuid4()}": "of another row"}
    assert "Enter a reason" in decider.post(address, other, follow=True).content.decode()
    answer = decider.post(address, {**other, f"reason-{call.pk}": "not now"}, follow=True)
    assert answer.request["PATH_INFO"] == QUEUE
    call.refresh_from_db()
    assert (call.decision, call.decision_reason) == ("refused", "not now")


def test_decided_call_counts_only_decisions_before_its_own(root: Client, seeded: Seed) -> None:
    call, now = seeded.undecided_call, timezone.now()

    def rows() -> tuple[list[str], int]:
        with CaptureQueriesContext(connection) as captured:
            text = root.get(f"{QUEUE}?decision=any&q=weed").content.decode()
        cells = re.findall(r'<td class="field-before\b[^>]*>(.*?)</td>', text, re.DOTALL)
        return ["".join(Page(each).read).strip() for each in cells], len(captured)

    def decide(number: int, decision: str, minutes: int) -> None:
        at = now + timedelta(minutes=minutes)
        words = {"decision": decision, "decided_at": at, "finished_at": at, "accepted_at": at}
        undecided_call(call.session_id, number, tool="weed", user=call.user, state="completed", **words)

    decide(70, "approved", -9)
    rows()  # The first request fills caches.
    before, queries = rows()
    assert before == ["no earlier decisions"]
    decide(71, "refused", -7)
    decide(72, "approved", -5)
    assert rows() == (
        ["this user: 1 approved, 1 refused", "this user: 1 approved", "no earlier decisions"], queries,
    )  # fmt: skip


def test_bulk_decision_page_lists_its_consequences(decider: Client, seeded: Seed) -> None:
    seeded.undecided_call.user = seeded.viewer
    seeded.undecided_call.four_eyes = True
    seeded.undecided_call.save()
    other = undecided_call(seeded.session.pk, 62, user=seeded.root)
    chosen = {"_selected_action": [str(seeded.undecided_call.pk), str(other.pk)]}
    looked_at = decider.post(QUEUE, {"action": "approve_calls", **chosen}).content.decode()
    assert "1 call will run" in looked_at
    assert "You may not approve the others" in looked_at
    looked_at = decider.post(QUEUE, {"action": "refuse_calls", **chosen}).content.decode()
    assert "2 calls will end with an error" in looked_at


def test_refused_call_returns_the_reason_without_the_decider(decider: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    text = _decide(decider, "refuse", call, "Dune is not ours")
    # The user's name is not asserted: seed rows name users by id, and ids differ on PostgreSQL.
    assert re.search(r"The call of discard by .+ was refused\.", unescape(text))
    # The outcome is one word, on the call's page and in the list of calls.
    listed = decider.get(page("call", "changelist")).content.decode()
    assert ">refused</span>" in text
    assert ">refused</span>" in listed
    assert ">failed</span>" not in text
    call.refresh_from_db()
    assert (call.state, call.outcome, call.decision) == ("failed", "tool_error", "refused")
    result = orjson.loads(call.answer)["result"]
    assert result["isError"]
    assert result["content"][0]["text"] == "discard was refused by an administrator: Dune is not ours"
    assert "viewer" not in call.answer
    event = AuditEvent.objects.get(action="call.refuse")
    assert (event.actor_id, event.detail["reason"]) == (seeded.viewer.pk, "Dune is not ours")


@pytest.mark.parametrize("reason", ["", "  \n ", "\0"])
def test_refusal_requires_a_reason(reason: str, decider: Client, seeded: Seed) -> None:
    assert "Enter a reason" in _decide(decider, "refuse", seeded.undecided_call, reason)
    assert _listed(decider) != []
    assert Call.objects.get(pk=seeded.undecided_call.pk).state == "approval_needed"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"decision": "approved", "state": "accepted"}, "root has approved this call already, at"),
        ({"decision": "refused", "state": "failed"}, "root has refused this call already, at"),
        ({"decision": "refused", "state": "failed", "decided_by": None}, "somebody has refused this call"),
        ({"decision": "expired", "state": "failed", "decided_by": None}, "could be approved until"),
        ({"decided_at": None, "approval_until": timezone.now() - timedelta(1)}, "could be approved until"),
        ({"decided_at": None, "cancel_requested_at": timezone.now()}, "The call was cancelled at"),
    ],
)
@pytest.mark.parametrize("verb", ["approve", "refuse"])
def test_late_decision_reports_the_current_state(
    verb: str, change: dict[str, Any], says: str, decider: Client, seeded: Seed
) -> None:
    values = {"decided_at": timezone.now(), "decided_by": seeded.root, **change}
    Call.objects.filter(pk=seeded.undecided_call.pk).update(**values)
    before = Call.objects.values("state", "decision", "answer").get(pk=seeded.undecided_call.pk)
    # Django's own skin begins messages with a capital letter.
    assert says.lower() in _decide(decider, verb, seeded.undecided_call, "a reason").lower()
    assert Call.objects.values("state", "decision", "answer").get(pk=seeded.undecided_call.pk) == before
    assert not AuditEvent.objects.filter(action__in=["call.approve", "call.refuse"]).exists()


@pytest.mark.parametrize(
    ("asked", "again", "says"),
    [
        ("root", None, "was approved."),
        ("viewer", None, "You asked for this call yourself"),
        ("root", "viewer", "You had this call made again"),
        ("root", "root", "was approved."),
        (None, None, "The user who made this call is unknown"),
    ],
)
def test_four_eyes_requires_two_known_users(
    asked: str | None, again: str | None, says: str, decider: Client, seeded: Seed
) -> None:
    people = {"root": seeded.root, "viewer": seeded.viewer, None: None}
    call = seeded.undecided_call
    principal = call.principal if asked else "loopback"
    Call.objects.filter(pk=call.pk).update(
        four_eyes=True, user=people[asked], retried_by=people[again], principal=principal
    )
    shown = _read(decider, page("call", "change", call.pk))
    assert says in _decide(decider, "approve", call)
    approved = says == "was approved."
    assert (says in shown) != approved
    # The reason of a refusal would contradict it.
    assert ("another user must approve" in shown) == approved
    assert Call.objects.get(pk=call.pk).decision == ("approved" if approved else "")


def test_four_eyes_excludes_the_user_acting_as_another(decider: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    acting = f"user:{seeded.root.pk}/bench/by:{seeded.viewer.pk}"
    Call.objects.filter(pk=call.pk).update(four_eyes=True, user=seeded.root, principal=acting)
    chosen = {"action": "approve_calls", "_selected_action": [call.pk]}
    looked_at = decider.post(QUEUE, chosen).content.decode()
    for text in (_read(decider, QUEUE), _read(decider, page("call", "change", call.pk)), looked_at):
        assert "viewer as root" in text
    assert "You asked for this call yourself" in _decide(decider, "approve", call)
    assert Call.objects.get(pk=call.pk).decision == ""


def test_requester_may_approve_without_four_eyes(decider: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.undecided_call.pk).update(user=seeded.viewer)
    assert "was approved." in _decide(decider, "approve", seeded.undecided_call)


def test_requester_may_refuse_under_four_eyes(decider: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.undecided_call.pk).update(user=seeded.viewer, four_eyes=True)
    assert "was refused." in _decide(decider, "refuse", seeded.undecided_call, "a mistake")


@pytest.mark.parametrize(("verb", "state"), [("approve", "accepted"), ("refuse", "failed")])
def test_bulk_decision_needs_confirmation(verb: str, state: str, decider: Client, seeded: Seed) -> None:
    other = undecided_call(seeded.session.pk, 40, tool="shred")
    chosen = {"action": f"{verb}_calls", "_selected_action": [seeded.undecided_call.pk, other.pk]}
    looked_at = decider.post(QUEUE, chosen)
    text = "".join(Page(looked_at.content.decode()).read)
    assert "bookDune" in text
    assert "shred" in text
    assert Call.objects.filter(state="approval_needed").count() == 3
    done = decider.post(QUEUE, {**chosen, "decided": verb, "reason": "as agreed"}, follow=True)
    assert f"Calls {verb}d: 2." in done.content.decode().replace("refuseed", "refused")
    assert set(Call.objects.filter(pk__in=chosen["_selected_action"]).values_list("state", flat=True)) == {
        state
    }
    assert AuditEvent.objects.filter(action=f"call.{verb}").count() == 2


def test_bulk_refusal_without_reason_asks_again(decider: Client, seeded: Seed) -> None:
    chosen = {"action": "refuse_calls", "_selected_action": [seeded.undecided_call.pk], "decided": "refuse"}
    answer = decider.post(QUEUE, {**chosen, "reason": " "})
    assert "Enter a reason" in answer.content.decode()
    assert "Refuse all" in answer.content.decode()


def test_bulk_decision_skips_and_lists_decided_calls(decider: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    Call.objects.filter(pk=call.pk).update(
        state="failed", decision="refused", decided_at=timezone.now(), decided_by=seeded.root
    )
    posted = {"action": "approve_calls", "_selected_action": [call.pk, uuid4()], "decided": "approve"}
    text = decider.post(QUEUE, posted, follow=True).content.decode()
    assert f"Unchanged: {call.pk}. root has refused this call already" in text
    assert "There is no such call any more." in text
    looked_at = {"action": "approve_calls", "_selected_action": [call.pk]}
    assert (
        "None of these calls waits any longer."
        in decider.post(QUEUE, looked_at, follow=True).content.decode()
    )


def test_call_page_shows_its_approval_state(decider: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    text = _read(decider, page("call", "change", call.pk))
    assert "Expires" in text
    assert "data-live-waits" in decider.get(page("call", "change", call.pk)).content.decode()
    live = decider.get(page("call", "live", call.pk)).json()
    assert (live["waits"], live["state"], live["wait"]) == (True, "waiting for approval", "–")
    assert re.fullmatch(r"19 h \d+ min", live["left"])
    _decide(decider, "refuse", call, "not today")
    text = _read(decider, page("call", "change", call.pk))
    for words in ("Decided by", "viewer", "not today", "refused"):
        assert words in text
    assert not decider.get(page("call", "live", call.pk)).json()["waits"]
    listed = decider.get(page("call", "changelist") + "?state=refused")
    assert [row.pk for row in listed.context["cl"].result_list] == [call.pk]
    assert listed.content.decode().count(">refused</span>") == 1


def test_call_list_links_the_queue_and_sidebar_counts_approvals(root: Client, seeded: Seed) -> None:
    text = root.get(page("call", "changelist")).content.decode()
    assert "2 calls wait for approval." in "".join(Page(text).read)
    assert f'href="{QUEUE}"' in text
    if HAS_UNFOLD:
        badge = re.compile(r"<span>Approvals</span>\s*<span[^>]*>\s*2\s*</span>")
        assert badge.search(text)
        Call.objects.filter(state="approval_needed").delete()
        empty = root.get(page("call", "changelist")).content.decode()
        assert re.search(r"<span>Approvals</span>\s*<span[^>]* hidden>", empty)
        assert not re.search(r"waits? for approval", empty)


def test_queue_live_view_lists_pending_calls(
    client_of: ClientOf, client: Client, root: Client, viewer: Client, seeded: Seed
) -> None:
    address = QUEUE + "live/"
    live = viewer.get(address).json()
    assert str(seeded.undecided_call.pk) in live["waiting"]
    assert live["number"] == len(live["waiting"]) == 2
    assert client_of("outsider").get(address).status_code == 403
    assert client.get(address).status_code == 302
    assert root.post(address).status_code == 405
    shown = root.get(QUEUE).content.decode()
    assert str(seeded.undecided_call.pk) in shown[shown.index("data-queue-seen") :][:200]
    assert "data-queue" not in root.get(QUEUE + "?decision=refused").content.decode()


def test_approval_change_page_redirects_to_its_call(root: Client, seeded: Seed) -> None:
    call_page = page("call", "change", seeded.undecided_call.pk)
    assert root.get(page("approval", "change", seeded.undecided_call.pk))["Location"] == call_page
    assert root.get(page("approval", "change", seeded.call.pk))["Location"] == QUEUE
    assert root.get(page("approval", "change", "no-uuid"))["Location"] == QUEUE


@pytest.mark.parametrize(
    ("role", "sees", "decides"),
    [
        ("MCP auditor", True, False),
        ("MCP operator", True, True),
        ("MCP administrator", True, True),
        ("", False, False),
    ],
)
def test_approval_permissions_of_each_role(role: str, sees: bool, decides: bool, seeded: Seed) -> None:
    make_roles()
    user = get_user_model().objects.create_user("somebody", is_staff=True)
    user.groups.set(Group.objects.filter(name=role))
    client = Client()
    client.force_login(user)
    seen = 200 if sees else 403
    queue = client.get(QUEUE)
    assert queue.status_code == client.get(QUEUE + "live/").status_code == seen
    assert ("data-view-only" in queue.content.decode()) == (sees and not decides)
    if sees:
        calls = client.get(page("call", "changelist")).content.decode()
        assert (">Review</a>" in calls, ">View</a>" in calls) == (decides, not decides)
    call_page = client.get(page("call", "change", seeded.undecided_call.pk))
    assert call_page.status_code == seen
    assert ("Approve</button>" in call_page.content.decode()) == decides
    answer = client.post(page("approval", "approve", seeded.undecided_call.pk))
    assert answer.status_code == (302 if decides else 403)
    assert (Call.objects.get(pk=seeded.undecided_call.pk).decision == "approved") == decides


def test_approval_pages_escape_hostile_text(decider: Client, seeded: Seed) -> None:
    hostile = undecided_call(
        seeded.session.pk, 50, tool=HOSTILE["script"], principal=HOSTILE["image"],
        arguments=orjson.dumps(HOSTILE).decode(),
    )  # fmt: skip
    answers = [
        decider.get(QUEUE),
        decider.post(QUEUE, {"action": "refuse_calls", "_selected_action": [hostile.pk]}),
        decider.post(page("approval", "refuse", hostile.pk), {"reason": ALL_HOSTILE}, follow=True),
        decider.get(QUEUE + "?decision=refused"),
        decider.post(page("approval", "approve", hostile.pk), follow=True),
    ]
    for answer in answers:
        text = answer.content.decode()
        seen = Page(text)
        assert not [raw for raw in RAW_MARKUP if raw in text]
        assert not [handler for handler in seen.handlers if "pwned" in handler]
        assert not [target for target in seen.targets if target.startswith("javascript:")]
        assert not set(RAW_HIDDEN) & set("".join(seen.read))
    assert "U+202E" in answers[2].content.decode()
    hostile.refresh_from_db()
    assert len(hostile.decision_reason) <= 500


@pytest.mark.usefixtures("offered")
def test_retried_call_needs_approval_by_another_user(decider: Client, seeded: Seed) -> None:
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="change_call"))
    Call.objects.filter(pk=seeded.call.pk).update(user=seeded.root, decision="approved")
    queued = waiting("celery")
    text = decider.post(page("call", "retry", seeded.call.pk), follow=True).content.decode()
    assert "This is the new call. It waits for approval." in text
    new = Call.objects.get(retry_of=seeded.call.pk, session_id__startswith="operator-")
    assert (new.state, new.decision, new.enqueued_at, new.retried_by) == (
        "approval_needed", "", None, seeded.viewer,
    )  # fmt: skip
    assert new.approval_until is not None
    assert new.approval_until - new.accepted_at == timedelta(minutes=7)
    assert "You had this call made again" in _decide(decider, "approve", new)
    assert waiting("celery") == queued


@pytest.mark.usefixtures("offered")
def test_call_without_possible_approver_is_not_retried(root: Client, seeded: Seed) -> None:
    text = root.post(page("call", "retry", seeded.call.pk) + "?from_page=1", follow=True).content.decode()
    assert "but its caller is not known" in text
    assert not Call.objects.filter(session_id__startswith="operator-").exists()


def test_operator_cancels_a_pending_call(root: Client, seeded: Seed) -> None:
    root.post(page("call", "stop", seeded.undecided_call.pk))
    call = Call.objects.get(pk=seeded.undecided_call.pk)
    assert (call.state, call.outcome, call.decision) == ("cancelled", "cancelled", "")
    assert call.pk not in _listed(root)


def test_duplicated_preset_keeps_its_approval_settings(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.preset.pk).update(needs_approval=True, four_eyes=True)
    chosen = {"action": "duplicate_entries", "_selected_action": [seeded.preset.pk]}
    root.post(page("tool", "changelist"), chosen)
    copy = Tool.objects.exclude(pk=seeded.preset.pk).get(preset_of=seeded.preset.preset_of)
    assert (copy.needs_approval, copy.four_eyes) == (True, True)


@pytest.mark.parametrize("many", [False, True])
def test_revoking_a_key_refuses_and_reports_its_pending_calls(many: bool, root: Client, seeded: Seed) -> None:
    key = ApiKey.objects.filter(revoked_at=None).first()
    assert key is not None
    call = seeded.undecided_call
    Call.objects.filter(pk=call.pk).update(api_key_id=key.pk)
    if many:
        chosen = {"action": "revoke_keys", "_selected_action": [key.pk]}
        answer = root.post(page("apikey", "changelist"), chosen, follow=True)
    else:
        answer = root.post(page("apikey", "revoke", key.pk), follow=True)
    assert "refused 1 waiting call." in answer.content.decode().lower()
    call.refresh_from_db()
    assert (call.decision, call.decision_reason) == (
        "refused", "The API key that asked for this call was revoked.",
    )  # fmt: skip
    assert "was revoked" in _decide(root, "approve", call)


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own page of a user is not ours")
def test_deactivating_a_user_refuses_and_reports_pending_calls(root: Client, seeded: Seed) -> None:
    user, call = seeded.outsider, seeded.undecided_call
    Call.objects.filter(pk=call.pk).update(user=user, principal=f"user:{user.pk}/bench")
    posted = {"username": user.username, "date_joined_0": "2026-01-01", "date_joined_1": "10:00:00"}
    answer = root.post(f"/admin/auth/user/{user.pk}/change/", posted, follow=True)
    user.refresh_from_db()
    assert not user.is_active
    assert "Refused 1 waiting call." in answer.content.decode()
    assert Call.objects.get(pk=call.pk).decision == "refused"
