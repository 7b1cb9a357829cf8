"""The questions of a task as stored in its row, under names that are never reused by the task.

``open`` maps each name to the question and the key that the tool's code uses for it. ``used`` lists every
name so far (TASKX-09). The remaining state is that of ``Inputs``. Changes no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.execution.questions.inputs import Inputs

Wire = dict[str, Any]


def asked(inputs: Inputs, before: Mapping[str, Any] | None) -> Wire:
    """Return the state to store for a run that left questions open. ``before`` is the previous state."""
    used: list[str] = list((before or {}).get("used", ()))
    questions = {}
    for key, request in inputs.requests.items():
        name = _new_name(key, used)
        used.append(name)
        questions[name] = {"key": key, "request": request}
    settled = inputs.answers.keys() | inputs.refused
    responses = {key: answer for key, answer in inputs.responses.items() if key not in settled}
    return {"remembered": inputs.remembered(), "responses": responses, "open": questions, "used": used}


def answered(kept: Mapping[str, Any], responses: Mapping[str, Wire]) -> Wire | None:
    """Return the state with these answers added, or None if they answer no open question (TASKX-08)."""
    questions: dict[str, Any] = kept.get("open", {})
    taken = {question["key"]: responses[name] for name, question in questions.items() if name in responses}
    if not taken:
        return None
    left = {name: question for name, question in questions.items() if name not in responses}
    return {**kept, "responses": {**kept["responses"], **taken}, "open": left}


def requests(kept: Mapping[str, Any]) -> Wire:
    """Return the open questions in the form shown to the client."""
    return {name: question["request"] for name, question in kept.get("open", {}).items()}


def _new_name(key: str, used: list[str]) -> str:
    """Return the key, with a number if it was used before: a repeated question is a new one to the client."""
    name, number = key, 1
    while name in used:
        number += 1
        name = f"{key}.{number}"
    return name
