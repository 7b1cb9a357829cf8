"""Logged runs of the test bench: the list of earlier runs of an entry, and the details of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from mcp_app.auth.bench import RUN_AS, bench_key
from mcp_app.auth.principal_names import principal_names
from mcp_app.models import AuditEvent, Message, Session
from mcp_app.observability.redaction import MARK
from mcp_app.protocol.messages import uri_template

RUNS_SHOWN: Final = 20
_SESSIONS_LOOKED_AT: Final = 40
_MESSAGES_LOOKED_AT: Final = 400
_PEOPLE_LOOKED_AT: Final = 20

Arguments = dict[str, Any]
Read = Callable[[dict[str, Any]], Arguments | None]


@dataclass(frozen=True, slots=True)
class Subject:
    """The entry under test, as the log shows its runs.

    ``method`` is the method that runs the entry. ``read`` returns the arguments in the params of a logged
    request, or None if the request was for another entry.
    """

    method: str
    read: Read


def subject_of(kind: str, key: str) -> Subject:
    """Return the subject for an entry. ``key`` is the entry's name, URI or URI template."""
    if kind == "resource":
        return Subject("resources/read", lambda params: {} if params.get("uri") == key else None)
    if kind == "template":
        return Subject("resources/read", lambda params: _variables(key, params))
    method = {"tool": "tools/call", "prompt": "prompts/get"}[kind]
    return Subject(method, lambda params: _arguments(params) if params.get("name") == key else None)


def served_template(key: str) -> uri_template.UriTemplate | None:
    """Return the compiled URI template, or None if it is invalid."""
    try:
        return uri_template.compile(key)
    except ValueError:
        return None


def _variables(key: str, params: dict[str, Any]) -> Arguments | None:
    template = served_template(key)
    return template.match(str(params.get("uri", ""))) if template is not None else None


def _arguments(params: dict[str, Any]) -> Arguments | None:
    arguments = params.get("arguments", {})
    return arguments if isinstance(arguments, dict) else None


def runs(actor: Any, subject: Subject) -> list[dict[str, Any]]:
    """Return the newest test runs of a subject by ``actor``, including runs as other users."""
    found = (
        message
        for message in _bench_messages(actor)
        if message.method == subject.method and subject.read(_params(message)) is not None
    )
    shown = list(islice(found, RUNS_SHOWN))
    names = principal_names({message.principal for message in shown})
    return [_facts(message, names) for message in shown]


def logged_run(message: Message, subject: Subject) -> dict[str, Any] | None:
    """Return a logged run with its arguments and answer, or None if the message is not a run of the subject.

    ``whole`` is False if the logged request was truncated or redacted.
    """
    params = _params(message)
    arguments = subject.read(params) if message.method == subject.method else None
    if arguments is None:
        return None
    answer = _parsed(message.answer)
    return {
        **_facts(message, principal_names([message.principal])),
        "arguments": arguments,
        "answer": answer if answer is not None else message.answer,
        "whole": MARK not in message.payload,
    }


def _bench_messages(actor: Any) -> list[Message]:
    people = AuditEvent.objects.filter(actor=actor, action=RUN_AS).values_list("detail", flat=True)
    others = {str(detail.get("user", "")) for detail in people[:_PEOPLE_LOOKED_AT]}
    keys = [bench_key(actor.pk, actor.pk), *(bench_key(actor.pk, other) for other in others)]
    sessions = Session.objects.filter(principal__in=keys).order_by("-created_at")
    ids = list(sessions.values_list("pk", flat=True)[:_SESSIONS_LOOKED_AT])
    # The query filters only by session, which is indexed and matches few messages. The caller filters by
    # method.
    messages = Message.objects.filter(session_id__in=ids, direction=Message.Direction.IN).defer("answer")
    return list(messages.order_by("-pk")[:_MESSAGES_LOOKED_AT])


def _facts(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "message": message.pk,
        "at": message.at.isoformat(),
        "outcome": message.outcome,
        "milliseconds": message.duration_ms,
        "principal": names.get(message.principal, message.principal),
    }


def _params(message: Message) -> dict[str, Any]:
    request = _parsed(message.payload)
    params = request.get("params") if isinstance(request, dict) else None
    return params if isinstance(params, dict) else {}


def _parsed(text: str) -> Any:
    """Return the JSON value of a logged payload, or None if the payload is truncated or not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
