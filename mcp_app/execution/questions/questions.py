"""The questions that a tool may ask its client, and the conversion of the answers to Python values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Generic, Literal, TypeVar, get_origin
from urllib.parse import unquote

from django.conf import settings as django_settings
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.definitions.typing_rules import portable
from mcp_app.execution.questions.message_result import CreateMessageResult
from mcp_app.foreign_code import contained
from mcp_app.protocol.errors import InvalidAnswer
from mcp_app.protocol.features import elicitation, sampling

VALUE = "value"

T = TypeVar("T")
Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A request to the client.

    ``needed`` names the client capabilities that it requires. ``read`` converts the client's result to a
    Python value, and raises ToolError if the result does not answer this question.
    """

    method: str
    params: Wire
    needed: tuple[str, ...]
    read: Callable[[Wire], T]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an elicitation.

    ``action`` is accept, decline or cancel. ``content`` has the form's fields. ``value`` is the typed value
    if the form was given as a Python type. In a condition, the answer is true if the user accepted and, if
    the form was a single bool, chose True.
    """

    action: str
    content: dict[str, Any] = field(default_factory=dict)
    value: Any = None

    def __bool__(self) -> bool:
        return self.action == "accept" and self.value is not False


def _is_simple(kind: Any) -> bool:
    return _is_builtin(kind) or (isinstance(kind, type) and issubclass(kind, Enum))


def _is_builtin(kind: Any) -> bool:
    return kind in (str, int, float, bool) or get_origin(kind) is Literal


def _validated(validate: Callable[[Wire], Any], content: Wire) -> Any:
    """Convert the content to a class of the application, whose validators are application code."""
    with contained():
        return validate(content)


class Form:
    """The form of a question: its JSON Schema, and the conversion of an answer to a Python value."""

    __slots__ = ("_simple", "_validate", "schema")

    def __init__(self, kind: Any) -> None:
        """Create a form from a JSON Schema, a simple type, or a class whose fields have simple types.

        Raise ValueError for any other type, and for a form that clients cannot display.
        """
        self._validate: Callable[[Wire], Any] | None = None
        self._simple = False
        if isinstance(kind, dict):
            self.schema = kind
            elicitation.check_form(kind)
            return
        self._simple = _is_simple(kind)
        members: dict[str, Any] = {VALUE: (kind, ...)}
        model = create_model("Answer", **members) if self._simple else kind
        adapter = TypeAdapter(portable(model))
        schema = adapter.json_schema()
        if "properties" not in schema:
            raise ValueError(
                f"A form needs a simple type, or a class with members of simple types, not {kind!r}."
            )
        self.schema = flatten(schema)
        elicitation.check_form(self.schema)
        validate = adapter.validate_python
        self._validate = validate if _is_builtin(kind) else partial(_validated, validate)

    def read(self, content: dict[str, Any]) -> Any:
        """Return the typed value. Raise ToolError if the content does not match the type."""
        if self._validate is None:
            return content
        try:
            value = self._validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise ToolError(f"The answer does not fit the form: {where}: {first['msg']}.") from None
        return getattr(value, VALUE) if self._simple and isinstance(value, BaseModel) else value


# Cached, because it takes longer to build a form than to do everything else for a question.
_form_of_class = lru_cache(maxsize=128)(Form)


def flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a form schema without references or unions with null, as elicitation requires (ELI-03)."""
    definitions = schema.get("$defs", {})

    def simple(member: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in member:
            found = definitions[member["$ref"].rpartition("/")[2]]
            return simple({**found, **{key: value for key, value in member.items() if key != "$ref"}})
        if "anyOf" in member:
            kinds = [kind for kind in member["anyOf"] if kind.get("type") != "null"]
            if len(kinds) == 1:
                rest = {key: value for key, value in member.items() if key not in ("anyOf", "default")}
                return simple({**kinds[0], **rest})
        if "const" in member:
            return {"type": "string", "enum": [member["const"]]}
        if "items" in member:
            return {**member, "items": simple(member["items"])}
        return member

    properties = {name: simple(member) for name, member in schema.get("properties", {}).items()}
    flat: dict[str, Any] = {"type": "object", "properties": properties}
    if required := schema.get("required"):
        flat["required"] = required
    return flat


def form(message: str, kind: Any) -> Question[Answer]:
    """Build a question with a form. Raise ValueError for a form that clients cannot display."""
    if isinstance(kind, type):
        asked = _form_of_class(kind)
    else:
        asked = Form({"type": "object", "properties": {}} if kind is None else kind)
    params = {"mode": "form", "message": str(message), "requestedSchema": asked.schema}
    return Question("elicitation/create", params, ("elicitation_form",), partial(_answer, asked))


def link(message: str, url: str, elicitation_id: str) -> Question[Answer]:
    """Build a question with a URL that the user has to open. Raise ValueError for an unsafe URL."""
    elicitation.check_url(url, allow_http=django_settings.DEBUG)
    params = {"mode": "url", "message": str(message), "url": url, "elicitationId": elicitation_id}
    return Question("elicitation/create", params, ("elicitation_url",), partial(_answer, None))


def sample(messages: Any, max_tokens: int, options: Wire) -> Question[CreateMessageResult]:
    """Build a request that the client's model continue the messages.

    Raise ValueError for invalid messages.
    """
    params = sampling.build_params(messages, max_tokens=max_tokens, **options)
    return Question("sampling/createMessage", params, sampling.needed_capabilities(params), _sampled)


def roots() -> Question[list[Wire]]:
    """Build a request for the client's roots."""
    return Question("roots/list", {}, ("roots",), _roots)


def _answer(asked: Form | None, result: Wire) -> Answer:
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise ToolError("The client's answer to the elicitation has no valid action.")
    if action != "accept" or asked is None:
        return Answer(action)
    content = result.get("content")
    if not isinstance(content, dict):
        raise ToolError("The client accepted the elicitation without any content.")
    problem = elicitation.check_answer(asked.schema, content)
    if problem is not None:
        raise ToolError(f"The client's answer does not fit the form: {problem}")
    return Answer(action, content, asked.read(content))


def _sampled(result: Wire) -> CreateMessageResult:
    try:
        return CreateMessageResult(sampling.check_result(result))
    except InvalidAnswer as error:
        raise ToolError(error.message) from None


def _roots(result: Wire) -> list[Wire]:
    found = result.get("roots")
    return [root for root in found if _is_root(root)] if isinstance(found, list) else []


def _is_root(root: Any) -> bool:
    """Return True for a file URI without path traversal (ROOT-04). Any other root is ignored."""
    uri = root.get("uri") if isinstance(root, dict) else None
    return isinstance(uri, str) and uri.startswith("file:///") and "/.." not in unquote(uri)
