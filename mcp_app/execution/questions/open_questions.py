"""What a task asked its client, as its row keeps it: by names that are never used again in its life.

``open`` has, by such a name, the key that the tool's code knows the question by, and the question; ``used``
every name there was (TASKX-09). The rest is what ``Inputs`` keeps of earlier rounds. Changes no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.execution.questions.inputs import Inputs

Wire = dict[str, Any]


def asked(inputs: Inputs, before: Mapping[str, Any] | None) -> Wire:
    """What to keep of a run that left questions open, after ``before``."""
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
    """What to keep with these answers; None when none of them is to an open question (TASKX-08)."""
    questions: dict[str, Any] = kept.get("open", {})
    taken = {question["key"]: responses[name] for name, question in questions.items() if name in responses}
    if not taken:
        return None
    left = {name: question for name, question in questions.items() if name not in responses}
    return {**kept, "responses": {**kept["responses"], **taken}, "open": left}


def requests(kept: Mapping[str, Any]) -> Wire:
    """The open questions as the client is shown them."""
    return {name: question["request"] for name, question in kept.get("open", {}).items()}


def _new_name(key: str, used: list[str]) -> str:
    """The key itself, unless a question had it: one that is asked again is another question to the client."""
    name, number = key, 1
    while name in used:
        number += 1
        name = f"{key}.{number}"
    return name
