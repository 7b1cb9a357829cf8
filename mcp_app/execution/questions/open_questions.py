"""The questions of a task as its row stores them, under names that the task never uses twice.

``open`` maps each name to a question and to the key that the tool's code uses for it. ``used`` lists all
names used so far (TASKX-09). The rest of the state comes from ``Inputs``. This module changes no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.execution.questions.inputs import Inputs

Wire = dict[str, Any]


def asked(inputs: Inputs, before: Mapping[str, Any] | None) -> Wire:
    """Return the state to store for a run with open questions.

    ``before`` is the state that was stored so far.
    """
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
    """Return the state with these answers added. Return None if they match no open question (TASKX-08)."""
    questions: dict[str, Any] = kept.get("open", {})
    taken = {question["key"]: responses[name] for name, question in questions.items() if name in responses}
    if not taken:
        return None
    left = {name: question for name, question in questions.items() if name not in responses}
    return {**kept, "responses": {**kept["responses"], **taken}, "open": left}


def requests(kept: Mapping[str, Any]) -> Wire:
    """Return the open questions in the form that clients get."""
    return {name: question["request"] for name, question in kept.get("open", {}).items()}


def _new_name(key: str, used: list[str]) -> str:
    """Return the key, with a number if the name is taken.

    For the client, a repeated question is a new question.
    """
    name, number = key, 1
    while name in used:
        number += 1
        name = f"{key}.{number}"
    return name
