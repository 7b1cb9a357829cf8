"""Questions in results of 2026-07-28, and the answers that the client sends when it repeats the request."""

from __future__ import annotations

import re
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams

# MRTR-03: the allowed kinds of questions, each with the beginning of its default key.
KINDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
# MRTR-01: the requests that may be answered with questions.
METHODS: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
MAX_RESPONSES: Final = 100

_KEY: Final = re.compile(r"[A-Za-z0-9_.:~/-]{1,128}")


def result(requests: dict[str, dict[str, Any]], state: str) -> dict[str, Any]:
    """Return a result with questions (MRTR-02). ``requests`` are by key.

    ``state`` is "" for tasks (STATE-08).
    """
    with_state = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **with_state}


def check_key(key: str) -> str:
    """Return the key. Raise ValueError if it is not allowed as the key of a question."""
    if not _KEY.fullmatch(key):
        raise ValueError("The key of a question has 1 to 128 letters, digits or any of _.:~/- only.")
    return key


def responses(params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the ``inputResponses`` of a request by key. Raise InvalidParams if malformed (MRTR-08).

    An answer is checked when the code asks its question again. Answers under unknown keys do no harm.
    """
    if "inputResponses" not in params:
        return {}
    found = params["inputResponses"]
    if type(found) is not dict:
        raise InvalidParams("The member 'inputResponses' must be an object.")
    if len(found) > MAX_RESPONSES:
        raise InvalidParams(f"The member 'inputResponses' may have at most {MAX_RESPONSES} members.")
    for key, answer in found.items():
        if type(answer) is not dict:
            raise InvalidParams(f"The response {key[:128]!r} in 'inputResponses' must be an object.")
    return found


def is_answer(method: str, answer: dict[str, Any]) -> bool:
    """Return True if a response has the form of an answer to a question of this kind."""
    if method == "roots/list":
        return type(answer.get("roots")) is list
    return ("action" if method == "elicitation/create" else "content") in answer


def state(params: dict[str, Any]) -> str | None:
    """Return the ``requestState`` of a request, or None. Raise InvalidParams if it is not a string."""
    if "requestState" not in params:
        return None
    found = params["requestState"]
    if type(found) is not str:
        raise invalid_state()
    return found


def invalid_state() -> InvalidParams:
    """Return the error for an invalid state. It is the same for every reason (STATE-06)."""
    return InvalidParams(
        "The requestState is not valid for this request: make the request again without it.",
        data={"reason": "invalid_request_state"},
    )
