"""Tools that need approval, with real processes: messages to the client, and no run before the approval."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.calls.conftest import Installation, OpenSession, start_call, text_of
from tests.samples.approvals import decide, states
from tests.servers.live import eventually

pytestmark = pytest.mark.process

# Accepts and enqueues calls past the checks of web processes, for the worker to find.
SMUGGLE = """
from mcp_app.execution.stored import call_record, records
from mcp_app.execution.background.celery import enqueue_again
from mcp_app.models import Call
waiting = call_record.record(Call.objects.get(request_id={request_id!r}))
new = call_record.NewCall(
    session_id="operator-smuggled-{nonce}", request_id="smuggled", principal="loopback", user_id=None,
    api_key_id=None, tool={tool!r}, arguments={{"nonce": {nonce!r}}}, meta={{}},
    session_fields=waiting.session_fields, stream="call-{nonce}", timeout=30.0,
)
call, _ = records.accept(new)
enqueue_again(waiting)
enqueue_again(call)
print(call.id)
"""


# The messages that the page of a waiting call links.
LOGGED = """
from mcp_app.models import Message
print(*Message.objects.filter(request_id={request_id!r}, target={tool!r}).values_list("kind", flat=True))
"""


def test_request_of_a_pending_call_is_logged_before_its_response(
    live: Installation, client: Mcp, nonce: str
) -> None:
    logged = LOGGED.format(request_id=nonce, tool="approved_work")
    with start_call(client, "approved_work", nonce=nonce, steps=1) as stream:
        stream.message(5)
        eventually(lambda: live.shell(logged).split() == ["waiting"], 10, "the request is in the log")
        decide(live, "approve", nonce)
        stream.messages(30)
    eventually(lambda: "request" in live.shell(logged).split(), 10, "the answer is in the log")
    assert "waiting" not in live.shell(logged).split()


# Ends of a call without approval: by an operator in another process, or by time.
ENDS = {
    "refused": "decisions.refuse_call(call_id=call.pk, actor=None, reason='closed')",
    "stopped": "services.cancel_call(call_id=call.pk, actor=None)",
    "expired": "Call.objects.filter(pk=call.pk).update(approval_until=call.accepted_at); approval.sweep()",
}
END = """
import json
from mcp_app.execution import decisions, services
from mcp_app.execution.background import approval
from mcp_app.models import Call
call = Call.objects.get(request_id=json.dumps({request_id!r}))
{end}
"""
ANSWERED = """
import json
from mcp_app.models import Message
lines = Message.objects.filter(request_id={request_id!r}, kind="request", direction="in")
print(json.dumps([[each.outcome, each.payload, each.answer, each.session_id] for each in lines]))
"""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refused", "refused by an administrator: closed"),
        ("expired", "not approved in time"),
        ("stopped", "cancelled"),
        ("cancelled by its client", "cancelled"),
    ],
)
def test_response_of_a_call_that_ends_pending_is_logged(
    live: Installation, client: Mcp, nonce: str, how: str, words: str
) -> None:
    found: list[Any] = []

    def logged() -> bool:
        found[:] = json.loads(live.shell(ANSWERED.format(request_id=nonce)))
        return bool(found)

    with start_call(client, "approved_quick", nonce=nonce) as stream:
        stream.message(5)
        if how in ENDS:
            live.shell(END.format(request_id=nonce, end=ENDS[how]))
        else:
            client.notify("notifications/cancelled", {"requestId": nonce})
        stream.messages(10)
    eventually(logged, 10, "the answer is in the log")
    assert len(found) == 1
    # It is not a tool error, which operators would have to examine.
    assert found[0][0] == ("refused" if how in ("refused", "expired") else "cancelled")
    assert json.loads(found[0][1])["params"] == {"name": "approved_quick", "arguments": {"nonce": nonce}}
    assert words in found[0][2]
    assert found[0][3] == client.session


@pytest.mark.parametrize("how", sorted(ENDS))
def test_secret_argument_of_a_call_that_ends_pending_is_redacted(
    live: Installation, client: Mcp, nonce: str, how: str
) -> None:
    """Also if the process that ends the call has not loaded the tool's schema."""
    lines = f"Message.objects.filter(request_id={nonce!r}).values_list('payload')"
    kept = f"from mcp_app.models import Message; print(*{lines})"
    with start_call(client, "approved_unlock", nonce=nonce, digits="73194682") as stream:
        stream.message(5)
        live.shell(END.format(request_id=nonce, end=ENDS[how]))
        stream.messages(10)
    answered = f"from mcp_app.models import Message; print(*{lines.replace('payload', 'kind')})"
    eventually(lambda: live.shell(answered).split() == ["('request',)"], 10, "the answer replaces the mark")
    assert live.shell(kept).count("[redacted]") == live.shell(kept).count("digits") == 1
    assert "73194682" not in live.shell(kept)


def test_client_gets_the_wait_the_progress_and_the_response(
    live: Installation, client: Mcp, nonce: str
) -> None:
    with start_call(client, "approved_work", nonce=nonce, steps=3) as stream:
        first = stream.message(5)["params"]
        assert first["message"] == "Waiting for approval (60 min left)"
        assert first["progressToken"] == nonce
        assert live.lines(nonce) == []
        assert "approved" in decide(live, "approve", nonce)
        messages = stream.messages(30)
    assert text_of(messages[-1]).startswith(f"{nonce} ")
    reports = [each["params"] for each in messages if each.get("method") == "notifications/progress"]
    # The tool starts at 0; no progress is lost or decreases.
    assert [each.get("message") for each in reports[:2]] == ["Approved", "begins"]
    numbers = [first["progress"], *(each["progress"] for each in reports)]
    assert numbers == sorted(set(numbers))
    assert numbers[-3:] == [1, 2, 3]
    assert len(live.lines(nonce, "start")) == 1


def test_refused_call_never_starts_and_hides_the_decider(live: Installation, client: Mcp, nonce: str) -> None:
    with start_call(client, "approved_quick", nonce=nonce) as stream:
        stream.message(5)
        decide(live, "refuse", nonce, reason="the shop is closed")
        answer = stream.message(10)
    assert answer["result"]["isError"]
    assert text_of(answer) == "approved_quick was refused by an administrator: the shop is closed"
    assert "boss" not in json.dumps(answer)
    assert "boss has refused this call already" in decide(live, "approve", nonce)
    assert live.still_for(nonce, 0.5)
    assert live.lines(nonce) == []


def test_disconnected_client_gets_the_response_at_another_process(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str
) -> None:
    with start_call(client, "approved_quick", nonce=nonce) as stream:
        event = stream.next(5)
        while event is not None and not event.data:
            event = stream.next(5)
    assert event is not None
    decide(live, "approve", nonce)
    with closing(elsewhere.get_stream(str(event.id))) as resumed:
        assert text_of(resumed.messages(20)[-1]) == nonce


def test_timeout_starts_with_the_work_not_with_the_wait(live: Installation, client: Mcp, nonce: str) -> None:
    asked = time.monotonic()
    with start_call(client, "approved_nap", nonce=nonce, seconds=0.2) as stream:
        eventually(lambda: time.monotonic() > asked + 1.2, 5)  # Longer than the tool's timeout.
        decide(live, "approve", nonce)
        assert text_of(stream.messages(20)[-1]) == nonce


def test_repeated_post_attaches_to_the_pending_call(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str
) -> None:
    with start_call(client, "approved_quick", nonce=nonce) as stream:
        stream.message(5)
        with start_call(elsewhere, "approved_quick", nonce=nonce) as twin:
            assert "Waiting" in twin.message(5)["params"]["message"]
            assert decide(live, "approve", nonce).count("approved") >= 1
            assert text_of(twin.messages(20)[-1]) == nonce
        assert text_of(stream.messages(20)[-1]) == nonce
    assert len(live.lines(nonce, "start")) == 1


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_pending_call_ends_with_its_cancellation_or_session(
    live: Installation, open_session: OpenSession, nonce: str, how: str
) -> None:
    client = open_session()
    with start_call(client, "approved_quick", nonce=nonce) as stream:
        stream.message(5)
        if how == "cancel":
            assert client.notify("notifications/cancelled", {"requestId": nonce}).status == 202
            assert stream.message(5)["error"]["code"] == -32800
        else:
            assert client.delete().status in (200, 204)
    assert states(live, nonce) == ["cancelled"]
    assert "The call was cancelled at" in decide(live, "approve", nonce)
    assert live.lines(nonce) == []


def test_worker_refuses_unapproved_calls_accepted_earlier(
    live: Installation, client: Mcp, nonce: str
) -> None:
    """The worker runs neither a call accepted without approval nor the job of a pending call."""
    smuggled = f"{nonce}-smuggled"
    with start_call(client, "approved_quick", nonce=nonce) as stream:
        stream.message(5)
        code = SMUGGLE.format(request_id=json.dumps(nonce), nonce=smuggled, tool="approved_quick")
        call_id = live.shell(code).strip()
        found = f"from mcp_app.models import Call; print(Call.objects.get(pk={call_id!r}).answer)"
        answer: dict[str, Any] = {}

        def answered() -> bool:
            text = live.shell(found).strip()
            answer.update(json.loads(text) if text else {})
            return bool(answer)

        eventually(answered, 30, "the answer to the smuggled call")
        assert "needs approval now" in text_of(answer)
        assert live.lines(smuggled) == live.lines(nonce) == []
        assert states(live, nonce) == ["approval_needed"]
        decide(live, "refuse", nonce)
        stream.messages(10)


CHANGE = """
from mcp_app.catalogue.changes import services
from mcp_app.models import Tool
row = Tool.objects.filter(name={name!r}).first()
base = Tool.objects.get(name={base!r})
services.save_tool_preset(
    actor=None, entry=row, name={name!r}, preset_of=base, fixed_arguments={fixed!r}
)
"""


@pytest.mark.parametrize(
    ("base", "fixed"), [("approved_work", {"steps": 2}), ("approved_by_another", {})], ids=["fixed", "base"]
)
@pytest.mark.parametrize("is_decided", [True, False], ids=["decided", "swept"])
def test_changed_preset_is_not_run_after_the_request(
    live: Installation, client: Mcp, nonce: str, base: str, fixed: dict[str, Any], is_decided: bool
) -> None:
    """With or without a decision; the client receives the reason."""
    name = f"changed-{nonce}"
    live.shell(CHANGE.format(name=name, base="approved_work", fixed={"steps": 1}))
    listed = lambda: name in json.dumps(client.call("tools/list"))  # noqa: E731
    eventually(listed, 10, "the preset")
    with start_call(client, name, nonce=nonce) as stream:
        stream.message(5)
        live.shell(CHANGE.format(name=name, base=base, fixed=fixed))
        if is_decided:
            assert "not decided" in decide(live, "approve", nonce)
        answer = stream.messages(20)[-1]
    assert answer["result"]["isError"]
    assert "was changed after this call was asked for" in text_of(answer)
    assert states(live, nonce) == ["failed"]
    assert live.lines(nonce) == []


def test_four_eyes_tool_requires_an_api_key(client: Mcp, nonce: str) -> None:
    params = {"name": "approved_by_another", "arguments": {"nonce": nonce}}
    assert "call it with an API key" in json.dumps(client.call("tools/call", params))
