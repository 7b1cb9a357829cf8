"""Stored inputs of 2026-07-28 background calls: remembered answers, retention, approvals."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from mcp_app import Context
from mcp_app.auth.principal import LOOPBACK
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.database.queries import aquery
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.calls.call import attempt
from mcp_app.execution.calls.context import Context as CallContext
from mcp_app.execution.calls.reading import read_for
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import records
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.execution.stored.approved_work import work_of
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker.attempt_reply import AttemptReply
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.sessions.session import stored_fields
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import tool_entry
from tests.unit.execution.attempts import SESSION, STREAM, call_of, claimed
from tests.unit.execution.stage import EVERYTHING, Stage

FIELDS = stored_fields(
    version="2026-07-28", principal_key=LOOPBACK.key, client_info={}, capabilities=EVERYTHING, announced=0
)


def approved_tool(book: str = "") -> str:
    """Needs approval."""
    return book


def entry(**options: Any) -> ToolEntry:
    return tool_entry(approved_tool, needs_approval=True, **options)


def accepted(arguments: dict[str, Any], inputs: Inputs, request_id: int = 1) -> CallRecord:
    new = new_call(
        entry(),
        arguments,
        LOOPBACK,
        session_id=SESSION,
        request_id=request_id,
        session_fields=FIELDS,
        meta={},
        inputs=inputs,
    )
    return records.accept(new)[0]


@pytest.mark.django_db
@pytest.mark.postgres
def test_approval_of_earlier_round_covers_same_work_only() -> None:
    inputs = Inputs(bound="b")
    inputs.approve(work_of(entry().identity, {"book": "Dune"}))
    assert inputs.single_use
    same = accepted({"book": "Dune"}, inputs)
    assert (same.state, same.approved) == (State.ACCEPTED, True)
    other = accepted({"book": "Emma"}, inputs, 2)
    assert (other.state, other.approved) == (State.APPROVAL_NEEDED, False)
    first = accepted({"book": "Dune"}, Inputs(bound="b"), 3)
    assert (first.state, first.approved) == (State.APPROVAL_NEEDED, False)


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
async def test_attempt_ends_with_question_and_stores_no_answer(stage: Stage, streams: Streams) -> None:
    async def asks(ctx: Context) -> str:
        """Asks."""
        name = (await ctx.aelicit("Name?", str)).value
        return f"{name} {(await ctx.aelicit('Town?', str)).value}"

    inputs = Inputs(responses={"elicitation-1": {"action": "accept", "content": {"value": "\0 Ada"}}})
    await streams.log.open(SESSION, STREAM)
    record = await aquery(lambda: claimed(session_fields=FIELDS, inputs=inputs.stored()))
    reply = AttemptReply(streams, record, Published())
    call = call_of(record, streams, reply)
    assert record.inputs is not None
    call.inputs = Inputs.restored(record.inputs)
    context = CallContext(call, read_for(stage.runner))
    await attempt(call, partial(stage.runner.run_tool, tool_entry(asks), {}), context)
    assert await reply.done()
    assert call.outcome == "asked"
    assert set(call.inputs.requests) == {"elicitation-2"}
    assert set(call.inputs.remembered()["answers"]) == {"elicitation-1"}
    row = await Call.objects.aget(pk=record.id)
    assert (row.state, row.outcome, row.inputs) == (State.COMPLETED, "asked", None)
    assert orjson.loads(row.answer)["result"]["resultType"] == "input_required"


def test_state_of_another_code_version_is_readable() -> None:
    newer = {**Inputs(bound="b").remembered(), "invented": 1}
    del newer["approved"]
    assert Inputs.recalled(newer, {}).bound == "b"
