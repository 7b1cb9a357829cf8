"""Registration of model tools, and checks of their fields, filters and orders at start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import BinaryField, Model

from mcp_app import conf
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolDefinition
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.definitions.signatures import code_path
from mcp_app.catalogue.definitions.tool_definitions import ToolOptions
from mcp_app.catalogue.exposure.adapters import (
    chosen,
    definition_of,
    named_after,
    shared_options,
    snake_case,
)
from mcp_app.catalogue.exposure.models.columns import Filter, ModelColumn, column_of, filter_of
from mcp_app.catalogue.exposure.models.pages import Order
from mcp_app.catalogue.exposure.models.rows import Rows
from mcp_app.observability.redaction import Redactor

MAX_ROWS: Final = 1_000
OPERATIONS: Final = ("list", "get")
_SECRETS: Final = ("hash", "salt", "passphrase")
_ARGUMENTS: Final = ("order", "limit", "cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The arguments of ``Expose.model`` that select rows and columns."""

    fields: Iterable[str]
    filters: Iterable[str] | Mapping[str, Iterable[str]]
    order: Iterable[str]
    limit: int
    sensitive: bool
    queryset: Callable[[Any], Any] | None


def offer(
    model: Any,
    choices: Choices,
    operations: Iterable[str],
    prefix: str,
    permission: str | None,
    options: Mapping[str, Any],
) -> None:
    """Register the operations as tools, as ``Expose.model`` describes."""
    where = _checked(model)
    shared = shared_options(model, options)
    names = chosen(where, "operations", operations, OPERATIONS)
    if permission is None:
        permission = f"{model._meta.app_label}.view_{model._meta.model_name}"
    rows = _rows(where, model, choices)
    shared = replace(shared, permission=permission, read_only=True, idempotent=True, open_world=False)
    prefix = prefix or snake_case(model.__name__)
    for definition in [_definition(rows, name, prefix, shared) for name in names]:
        registry.add_tool(definition)


def _checked(model: Any) -> str:
    if not (isinstance(model, type) and issubclass(model, Model)) or model._meta.abstract:
        raise DefinitionError(f"{model!r} is no model with rows: give the class of one.")
    if getattr(model._meta.pk, "column", None) is None:
        raise DefinitionError(f"{code_path(model)}: a key of several columns is not supported.")
    return code_path(model)


def _definition(rows: Rows, operation: str, prefix: str, shared: ToolOptions) -> ToolDefinition:
    one, many = rows.model._meta.verbose_name, rows.model._meta.verbose_name_plural
    if operation == "get":
        run, text, schema, output = (
            rows.row,
            f"Get one {one} by its key.",
            rows.key_schema(),
            rows.row_schema(),
        )
    else:
        page = {"rows": {"type": "array", "items": rows.row_schema()}, "next": {"type": ["string", "null"]}}
        run, schema = rows.page, rows.page_schema()
        text = f"List {many}, a page at a time. While next is not null, there are more: pass it as cursor."
        output = {"type": "object", "properties": page, "required": list(page)}
    options = replace(
        shared,
        name=f"{prefix}_{operation}",
        description=text,
        input_schema=schema,
        output_schema=output,
    )
    return definition_of(named_after(run, rows.model, operation), options, is_made=True)


def _rows(where: str, model: Any, choices: Choices) -> Rows:
    if not 1 <= choices.limit <= MAX_ROWS:
        raise DefinitionError(f"{where}: limit is 1 to {MAX_ROWS}, got {choices.limit!r}.")
    columns = {
        path: _readable(where, model, path, choices) for path in _names(where, "fields", choices.fields)
    }
    if not columns:
        raise DefinitionError(f"{where}: fields is empty. Name each field that callers may read.")
    return Rows(
        model=model,
        name=code_path(model),
        columns=columns,
        filters=_filters(where, model, choices),
        orders=_orders(where, model, columns, _names(where, "order", choices.order)),
        limit=choices.limit,
        queryset=choices.queryset,
    )


def _names(where: str, kind: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise DefinitionError(f"{where}: {kind} is a list of names, got the string {given!r}.")
    return tuple(dict.fromkeys(given))


def _readable(where: str, model: Any, path: str, choices: Choices) -> ModelColumn:
    column = column_of(where, "fields", model, path)
    if isinstance(column.field, BinaryField):
        raise DefinitionError(
            f"{where}: fields {path!r}: bytes have no JSON form. Write a tool that returns File."
        )
    _refuse_secret(where, "fields", path, choices)
    return column


def _refuse_secret(where: str, kind: str, path: str, choices: Choices) -> None:
    # Filters are checked as well, because comparisons reveal a value step by step.
    names = (*conf.get().redacted_names, *_SECRETS)
    if not choices.sensitive and any(map(Redactor(names).is_secret, path.split("__"))):
        raise DefinitionError(f"{where}: {kind} {path!r} is named like a secret. sensitive=True allows it.")


def _filters(where: str, model: Any, choices: Choices) -> dict[str, Filter]:
    given = choices.filters
    if isinstance(given, Mapping):
        given = [
            path if lookup == "exact" and path not in _ARGUMENTS else f"{path}__{lookup}"
            for path, lookups in given.items()
            for lookup in _names(where, f"filters {path!r}", lookups)
        ]
    found = {name: filter_of(where, model, name) for name in _names(where, "filters", given)}
    for name, each in found.items():
        _refuse_secret(where, "filters", each.column.path, choices)
        if name in _ARGUMENTS:
            raise DefinitionError(f"{where}: filters {name!r} is an argument already. Use '{name}__exact'.")
    return found


def _orders(
    where: str, model: Any, columns: Mapping[str, ModelColumn], given: tuple[str, ...]
) -> dict[str, Order]:
    key = column_of(where, "order", model, "pk")
    keys = ("pk", model._meta.pk.name, model._meta.pk.attname)
    found: dict[str, Order] = {}
    for item in given or ("pk",):
        path = item.removeprefix("-")
        column = column_of(where, "order", model, path)
        if path not in columns and path not in keys:
            # Cursors contain the value of the column, and the sequence of rows reveals it.
            raise DefinitionError(
                f"{where}: order {path!r}: add it to fields, as the order tells its values."
            )
        if column.kind is None:
            raise DefinitionError(f"{where}: order {path!r}: this field cannot be compared.")
        for name in dict.fromkeys((item, path, f"-{path}")) if given else (item,):
            found[name] = found.get(name) or Order(column, key, name.startswith("-"), path in keys)
    return found
