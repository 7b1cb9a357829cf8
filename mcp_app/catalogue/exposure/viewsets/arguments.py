"""The arguments of an action: their schema from drf-spectacular, and their places in the request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.db import DatabaseError, connection, connections, transaction
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry
from drf_spectacular.settings import spectacular_settings
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.exposure.viewsets.actions import Action
from mcp_app.catalogue.exposure.viewsets.openapi import Converter, Schema
from mcp_app.catalogue.exposure.viewsets.picking import FIELDS, argument, members_of_response
from mcp_app.catalogue.schemas.client_rules import portable_names

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
# The argument for the whole body, used if the body's members cannot be arguments.
WHOLE: Final = "body"
_BODIES: Final = frozenset(("post", "put", "patch"))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of an action.

    ``query`` has the names of query parameters. True means that a list is sent as one value with commas.
    Names outside ``path`` and ``query`` are sent in the body. ``names`` maps renamed arguments to their names
    in the request. If it ``picks``, the argument ``fields`` reduces the response.
    """

    schema: Schema
    path: frozenset[str]
    query: Mapping[str, bool]
    has_body: bool = False
    is_whole: bool = False
    content_type: str = JSON
    description: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    picks: bool = False

    def as_requested(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call under their names in the request."""
        return {self.names.get(name, name): value for name, value in given.items()}


def written(action: Action, schema: Schema) -> Arguments:
    """Return the arguments of a hand-written schema.

    Arguments that are not in the path are sent in the body or the query.
    """
    path = frozenset(action.path_variables)
    has_body = action.method in _BODIES
    query = [] if has_body else [name for name in schema.get("properties", {}) if name not in path]
    handler = getattr(action.viewset, action.name)
    text = inspect.cleandoc(handler.__doc__ or "") if action.is_extra else ""
    return Arguments(schema, path, dict.fromkeys(query, False), has_body, description=text)


class _RequestsOnly:
    """A mixin for an inspector that skips responses and records errors about request bodies."""

    errors: tuple[str, ...] = ()

    def _get_response_bodies(self, *_: Any, **__: Any) -> Schema:
        return {}

    def _get_request_body(self, *arguments: Any, **keywords: Any) -> Any:
        # The inspector prints its errors and continues.
        before = dict(GENERATOR_STATS._error_cache)
        found = super()._get_request_body(*arguments, **keywords)  # type: ignore[misc]
        counts = GENERATOR_STATS._error_cache.items()
        self.errors = tuple(text for text, count in counts if count > before.get(text, 0))
        return found


def read(action: Action, prefix: str, *, choose_fields: bool = False) -> Arguments:
    """Return the arguments that drf-spectacular finds. Raises DefinitionError with action and remedy.

    With ``choose_fields``, an action that reads rows with its own serializer has the argument ``fields``.
    """
    with _failing_queries() as failed:
        try:
            return _read(action, prefix, choose_fields=choose_fields)
        except DefinitionError:
            if failed:
                # drf-spectacular reports a serializer's exception as text. The failed query is the cause.
                raise _without_tables(action, failed[0]) from failed[0]
            raise


def _read(action: Action, prefix: str, *, choose_fields: bool) -> Arguments:
    path, components, inspector = action.path(prefix), ComponentRegistry(), _inspector(action)
    try:
        with GENERATOR_STATS.silence():
            inspector.view = _view(action, path)
            operation = inspector.get_operation(path, path, "^/", action.method.upper(), components)
            schemas = components.build({}).get("schemas", {})
            is_read = choose_fields and action.method == "get" and not _borrows_serializer(action)
            members = members_of_response(inspector) if is_read else ()
    except Exception as error:
        raise _unreadable(action, repr(error)) from error
    if operation is None:
        raise _unreadable(action, "it is excluded from schemas")
    if inspector.errors:
        raise _unreadable(action, inspector.errors[0])
    return _with_fields(_arranged(action, operation, Converter(schemas)), members)


def _with_fields(found: Arguments, members: tuple[str, ...]) -> Arguments:
    properties = found.schema["properties"]
    if not members or FIELDS in properties:
        return found
    return replace(
        found, schema={**found.schema, "properties": {**properties, FIELDS: argument(members)}}, picks=True
    )


@contextmanager
def _failing_queries() -> Iterator[list[DatabaseError]]:
    """Collect the errors of failing queries.

    Inside a transaction, a savepoint keeps the transaction usable after a failure.
    """
    failed: list[DatabaseError] = []

    def watch(execute: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return execute(*arguments)
        except DatabaseError as error:
            failed.append(error)
            raise

    with ExitStack() as stack:
        for each in connections.all():
            stack.enter_context(each.execute_wrapper(watch))
        if connection.in_atomic_block:
            stack.enter_context(transaction.atomic())
        yield failed


def is_open(action: Action) -> bool:
    """Return True if the view's permission classes allow every caller.

    A view with its own ``get_permissions`` never counts as open.
    """
    decides = action.viewset.get_permissions is not APIView.get_permissions
    classes = action.initkwargs.get("permission_classes", action.viewset.permission_classes)
    return not decides and all(each is AllowAny for each in classes)


def _unreadable(action: Action, problem: str) -> DefinitionError:
    remedy = f"Give it one: input_schemas={{{action.name!r}: {{...}}}}."
    return DefinitionError(f"{action.where}: no schema of its arguments can be made: {problem}. {remedy}")


def _without_tables(action: Action, error: DatabaseError) -> DefinitionError:
    problem = " ".join(str(error).split())
    return DefinitionError(
        f"{action.where}: the schema of its arguments is read from the database, which fails: {problem}. "
        "If tables or columns are missing, run `manage.py migrate`."
    )


def _inspector(action: Action) -> Any:
    """Return an inspector for this action that respects ``extend_schema``.

    The view's own inspector stays unchanged.
    """
    handler = getattr(action.viewset, action.name)
    own = getattr(handler, "kwargs", {}).get("schema") or inspect.getattr_static(action.viewset, "schema")
    kind = own if isinstance(own, type) else type(own)
    if issubclass(kind, AutoSchema):
        bases: tuple[type, ...] = (kind,)
    elif kind.__module__ == extend_schema.__module__:
        # ``extend_schema`` extends the project's inspector, which must come after ``AutoSchema``.
        project: Any = api_settings.DEFAULT_SCHEMA_CLASS
        bases = (kind, AutoSchema, project)
    else:
        bases = (AutoSchema,)  # Projects with other documentation tools have other inspectors, or none.
    return type("RequestSchema", (_RequestsOnly, *bases), {})()


def _view(action: Action, path: str) -> Any:
    """Return a view that is set up for an anonymous request."""
    initkwargs = {name: value for name, value in action.initkwargs.items() if name != "schema"}
    view = action.viewset(**initkwargs)
    view.action_map = {action.method: action.name}
    view.action, view.detail = action.name, action.detail
    view.args, view.kwargs, view.format_kwarg = (), {}, None
    view.swagger_fake_view = True
    setattr(view, action.method, getattr(view, action.name))
    view.request = spectacular_settings.GET_MOCK_REQUEST(action.method.upper(), path, view, None)
    return view


def _arranged(action: Action, operation: Schema, converter: Converter) -> Arguments:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    query: dict[str, bool] = {}
    for parameter in _parameters(operation):
        name, schema = parameter["name"], converter.convert(parameter["schema"])
        if "description" in parameter:
            schema = {**schema, "description": str(parameter["description"])}
        properties[name] = schema
        if parameter["in"] == "query":
            query[name] = parameter.get("explode") is False
        if parameter["in"] == "path" or parameter.get("required"):
            required.append(name)
    content_type, body = _body(action, operation)
    is_whole = False
    if body is not None:
        is_whole = _add_body(action, operation, converter, body, properties, required)
    names = portable_names(properties)
    return Arguments(
        _closed(
            {names.get(name, name): schema for name, schema in properties.items()},
            [names.get(name, name) for name in required],
            converter,
        ),
        path=frozenset(name for name in properties if name in action.path_variables),
        query=query,
        has_body=action.method in _BODIES,
        is_whole=is_whole,
        content_type=content_type,
        description=str(operation.get("description", "")),
        names={argument: name for name, argument in names.items()},
    )


def _parameters(operation: Schema) -> Iterable[Schema]:
    """Yield path and query parameters, except the response format."""
    for parameter in operation.get("parameters", ()):
        is_format = parameter["name"] == api_settings.URL_FORMAT_OVERRIDE and parameter["in"] == "query"
        if parameter["in"] in ("path", "query") and not is_format:
            yield parameter


def _body(action: Action, operation: Schema) -> tuple[str, Schema | None]:
    """Return the media type to send and the schema of the body, or None as the schema without a body."""
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return JSON, None
    kinds = [JSON, *(name for name in content if name.endswith("+json")), FORM]
    kind = next((name for name in kinds if name in content), None)
    if kind is None:
        raise _unreadable(action, f"it takes {', '.join(content)}, and no JSON")
    return kind, content[kind].get("schema", {})


def _add_body(
    action: Action,
    operation: Schema,
    converter: Converter,
    body: Schema,
    properties: dict[str, Schema],
    required: list[str],
) -> bool:
    """Add the body's members as arguments, or the whole body as one argument.

    Return True if the whole body is one argument.
    """
    is_optional = action.method == "patch" or _borrows_serializer(action)
    members = converter.members(body)
    if members is None or not properties.keys().isdisjoint(members[0]):
        properties[WHOLE] = converter.convert(body)
        if operation["requestBody"].get("required") and not is_optional:
            required.append(WHOLE)
        return True
    properties.update(members[0])
    required.extend(() if is_optional else members[1])
    return False


def _borrows_serializer(action: Action) -> bool:
    """Return True for an ``@action`` that does not set its own schema or serializer.

    Its schema comes from the viewset's serializer, which the action may not use.
    """
    handler = getattr(action.viewset, action.name)
    return action.is_extra and not {"schema", "serializer_class"} & {
        *action.initkwargs,
        *getattr(handler, "kwargs", {}),
    }


def _closed(properties: dict[str, Schema], required: list[str], converter: Converter) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if converter.definitions:
        schema["$defs"] = dict(converter.definitions)
    return schema
