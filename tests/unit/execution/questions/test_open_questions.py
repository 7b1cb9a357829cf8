"""The stored questions of a task."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.execution.questions import open_questions
from mcp_app.execution.questions.inputs import Inputs

PARAMS = {"mode": "form", "message": "?", "requestedSchema": {}}


def asking(*keys: str, before: dict[str, Any] | None = None, **inputs: Any) -> dict[str, Any]:
    made = Inputs(**inputs)
    for key in keys:
        made.leave_open(key, "elicitation/create", PARAMS)
    return open_questions.asked(made, before)


@pytest.mark.requirement("TASKX-08")
def test_answers_are_accepted_one_by_one_for_open_questions_only() -> None:
    kept = asking("a", "b")
    assert open_questions.requests(kept).keys() == {"a", "b"}
    assert open_questions.answered(kept, {"c": {}}) is None
    first = open_questions.answered(kept, {"a": {"action": "accept"}, "c": {}})
    assert first is not None
    assert open_questions.requests(first).keys() == {"b"}
    assert open_questions.answered(first, {"a": {"action": "decline"}}) is None
    second = open_questions.answered(first, {"b": {"action": "decline"}, "a": {"action": "decline"}})
    assert second is not None
    assert open_questions.requests(second) == {}
    assert second["responses"] == {"a": {"action": "accept"}, "b": {"action": "decline"}}


@pytest.mark.requirement("TASKX-09")
def test_repeated_question_gets_new_name() -> None:
    kept, names = None, []
    for _ in range(3):
        kept = asking("a", "a.2", before=kept)
        names += open_questions.requests(kept)
    assert len(set(names)) == 6
    changed = open_questions.answered(kept or {}, {names[-2]: {"action": "accept"}})
    assert changed is not None
    assert changed["responses"] == {"a": {"action": "accept"}}


def test_early_answers_are_stored_until_asked() -> None:
    kept = asking(
        "new",
        responses={"taken": {"x": 1}, "later": {"x": 2}, "wrong": {"x": 3}},
        answers={"taken": {"x": 1}},
        refused={"wrong"},
    )
    assert kept["responses"] == {"later": {"x": 2}}
    assert Inputs.restored(kept).answers == {"taken": {"x": 1}}
