"""Questions inside of results, as 2026-07-28 has them: their shape, and that of what a retry brings."""

from __future__ import annotations

import re
from typing import Any, Final

from mcp_app.protocol.errors import InvalidParams

# MRTR-03: what may be asked, and what a question that was given no key is called by.
KINDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
# MRTR-01: the requests that may be answered so.
METHODS: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
MAX_RESPONSES: Final = 100

_KEY: Final = re.compile(r"[A-Za-z0-9_.:~/-]{1,128}")


def result(requests: dict[str, dict[str, Any]], state: str) -> dict[str, Any]:
    """MRTR-02: a result that asks instead of telling; ``requests`` by key. A task has no state (STATE-08)."""
    told = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **told}


def check_key(key: str) -> str:
    """The key itself; raises ValueError for one that should not travel as a member's name."""
    if not _KEY.fullmatch(key):
        raise ValueError("The key of a question has 1 to 128 letters, digits or any of _.:~/- only.")
    return key


def responses(params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The ``inputResponses`` of a request by key. Raises InvalidParams for what can be no answers (MRTR-08).

    Whether an answer fits its question is judged where that is asked again; unknown keys do no harm.
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
    """Whether a response can be one to a question of this kind at all."""
    if method == "roots/list":
        return type(answer.get("roots")) is list
    return ("action" if method == "elicitation/create" else "content") in answer


def state(params: dict[str, Any]) -> str | None:
    """The ``requestState`` of a request as it was sent, None without; raises InvalidParams."""
    if "requestState" not in params:
        return None
    found = params["requestState"]
    if type(found) is not str:
        raise invalid_state()
    return found


def invalid_state() -> InvalidParams:
    """The one error for whatever is wrong with a state (STATE-06)."""
    return InvalidParams(
        "The requestState is not valid for this request: make the request again without it.",
        data={"reason": "invalid_request_state"},
    )
