"""Questions of another server that are relayed to the client. Everything in them is checked first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from mcp_app.execution.questions import questions
from mcp_app.execution.questions.questions import Answer, Question, Wire
from mcp_app.protocol.features import elicitation, sampling

_TOP: Final = ("type", "properties", "required")
_NUMBERS: Final = frozenset(("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"))


def relayed(method: str, params: Mapping[str, Any]) -> Question[Wire]:
    """Return the question for a request of another server. It is answered with a result as sent on the wire.

    Raise ValueError for a question that cannot be shown to a user.
    """
    try:
        return _question(method, params)
    except TypeError as error:
        raise ValueError(str(error)) from None
    except (KeyError, AttributeError, RecursionError):
        raise ValueError("The question cannot be read.") from None


def _question(method: str, params: Mapping[str, Any]) -> Question[Wire]:
    if method == "roots/list":
        found = questions.roots()
        return _wire(found, lambda roots: {"roots": roots})
    if method == "sampling/createMessage":
        options = {name: params.get(member) for name, member in sampling.OPTIONS.items()}
        sampled = questions.sample(_messages(params), params.get("maxTokens", 0), options)
        return _wire(sampled, dict)
    if method != "elicitation/create":
        raise ValueError(f"{method[:100]} is not a question.")
    message = params.get("message")
    if not isinstance(message, str):
        raise TypeError("The question has no message.")
    if params.get("mode", "form") == "url":
        url, number = params.get("url"), params.get("elicitationId")
        if not isinstance(url, str) or not isinstance(number, str):
            raise TypeError("The question has no URL or no elicitationId.")
        return _wire(questions.link(message, url, number), lambda answer: {"action": answer.action})
    return _wire(questions.form(message, form_of(params.get("requestedSchema"))), _filled)


def form_of(schema: Any) -> Wire:
    """Return the form in a ``requestedSchema`` without keywords that clients do not know.

    Generated schemas have such keywords. The other server checks the answer by its own schema. Raise
    TypeError for a schema without properties.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise TypeError("A form must be an object schema with 'properties'.")
    found = {name: schema[name] for name in _TOP if name in schema}
    return {**found, "properties": {name: _member(member) for name, member in properties.items()}}


def _member(member: Any) -> Any:
    if not isinstance(member, dict):
        return member
    options = member.get("anyOf")
    if isinstance(options, list) and "type" not in member:
        # An optional value, as generated from Python types.
        kinds = [each for each in options if isinstance(each, dict) and each.get("type") != "null"]
        if len(kinds) == 1:
            member = {**kinds[0], **{key: value for key, value in member.items() if key != "anyOf"}}
            if member.get("default", "") is None:
                del member["default"]
    if "const" in member and "type" not in member:
        member = {"type": "string", "enum": [member["const"]], **member}
    known = elicitation.KEYWORDS.get(str(member.get("type")), frozenset())
    return {key: value for key, value in member.items() if key in known and _is_usable(key, value)}


def _is_usable(keyword: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return keyword not in _NUMBERS or is_number


def _messages(params: Mapping[str, Any]) -> Any:
    messages = params.get("messages")
    if not isinstance(messages, list):
        raise TypeError("The question has no messages.")
    return messages


def _wire(question: Question[Any], to_wire: Callable[[Any], Wire]) -> Question[Wire]:
    read = partial(_read, question.read, to_wire)
    return Question(question.method, question.params, question.needed, read)


def _read(read: Callable[[Wire], Any], to_wire: Callable[[Any], Wire], result: Wire) -> Wire:
    return to_wire(read(result))


def _filled(answer: Answer) -> Wire:
    content = {"content": answer.content} if answer.action == "accept" else {}
    return {"action": answer.action, **content}
