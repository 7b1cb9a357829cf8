"""Questions inside results of 2026-07-28, and the answers that a retry of the request carries."""

from __future__ import annotations

import re
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams

# MRTR-03: the allowed kinds of questions, and the default key of a question.
KINDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
# MRTR-01: the requests whose result may be a question.
METHODS: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
MAX_RESPONSES: Final = 100

_KEY: Final = re.compile(r"[A-Za-z0-9_.:~/-]{1,128}")


def result(requests: dict[str, dict[str, Any]], state: str) -> dict[str, Any]:
    """Return a result that asks for input (MRTR-02); ``requests`` by key. Tasks have no state (STATE-08)."""
    told = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **told}


def check_key(key: str) -> str:
    """Return the key; raise ValueError if it is not allowed as a member name."""
    if not _KEY.fullmatch(key):
        raise ValueError("The key of a question has 1 to 128 letters, digits or any of _.:~/- only.")
    return key


def responses(params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the ``inputResponses`` of a request by key. Raise InvalidParams for malformed ones (MRTR-08).

    The repeated question checks its answer. Unknown keys are harmless.
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
    """Return True if a response has the form of an answer to this kind of question."""
    if method == "roots/list":
        return type(answer.get("roots")) is list
    return ("action" if method == "elicitation/create" else "content") in answer


def state(params: dict[str, Any]) -> str | None:
    """Return the ``requestState`` of a request, None if absent; raise InvalidParams if it is not a string."""
    if "requestState" not in params:
        return None
    found = params["requestState"]
    if type(found) is not str:
        raise invalid_state()
    return found


def invalid_state() -> InvalidParams:
    """Return the common error for every invalid state (STATE-06)."""
    return InvalidParams(
        "The requestState is not valid for this request: make the request again without it.",
        data={"reason": "invalid_request_state"},
    )
