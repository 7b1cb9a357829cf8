"""What administrators may store: each check raises ValidationError that names the field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError

from mcp_app import conf
from mcp_app.auth.membership import group_of
from mcp_app.catalogue.definitions.tool_limits import (
    COLUMNS,
    MAX_APPROVAL_MINUTES,
    MAX_PRIORITY,
    MAX_RETRIES,
    QUEUE_NAME,
)
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.refusals import refusals
from mcp_app.catalogue.serving import files
from mcp_app.catalogue.serving.entry_builder import arguments_of
from mcp_app.catalogue.serving.rendering import placeholders
from mcp_app.catalogue.sources.precedence import in_force
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool
from mcp_app.protocol.messages import uri_template
from mcp_app.protocol.messages.icons import check_icons
from mcp_app.protocol.messages.meta import check_own_keys
from mcp_app.protocol.messages.names import check_name

Errors = dict[str, list[str]]
MAX_TEXT: Final = 100_000
MAX_ARGUMENTS: Final = 50

_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PERMISSION: Final = re.compile(r"\w+\.\w+")
_MIME_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}(;\s*[\w-]+=[\w.\"-]+)*")
_ARGUMENT_MEMBERS: Final = frozenset({"name", "title", "description", "required"})


class UnfitError(ValueError):
    """A value that cannot be stored; the text is for the administrator."""


def check(row: Tool | Prompt | Resource | ResourceTemplate, *, own: bool) -> None:
    """Check a row before it is saved; ``own`` when its definition, too, was made by an administrator."""
    errors = _model_errors(row)
    _collect(errors, "icons", lambda: check_icons(row.icons))
    _collect(errors, "meta", lambda: _check_meta(row.meta))
    _collect(errors, "permission", lambda: _check_permission(row.permission))
    _collect(errors, "description", lambda: _check_length(row.description))
    if isinstance(row, Tool):
        for limit, column in COLUMNS.items():
            _collect(errors, column, partial(_LIMIT_CHECKS[limit], row))
    if own:
        _OWN_CHECKS[type(row)](row, errors)
    if errors:
        raise ValidationError(errors)


def _model_errors(row: Any) -> Errors:
    try:
        row.full_clean()
    except ValidationError as error:
        return {name: list(messages) for name, messages in error.message_dict.items()}
    return {}


def _collect(errors: Errors, field: str, run: Callable[[], object]) -> None:
    if field in errors:
        return
    try:
        run()
    except ValueError as error:
        errors[field] = [str(error)]


def _check_meta(meta: Any) -> None:
    if not isinstance(meta, dict):
        raise UnfitError("This must be a JSON object.")
    check_own_keys(meta)


def _check_permission(permission: str) -> None:
    if permission and not _PERMISSION.fullmatch(permission):
        raise UnfitError("A permission looks like app_label.codename.")


def permission_exists(permission: str) -> bool:
    """Whether anybody could have it; that of the members of a group is made when an entry gets it."""
    if group_of(permission) is not None:
        return True
    label, _, codename = permission.partition(".")
    return Permission.objects.filter(content_type__app_label=label, codename=codename).exists()


def _check_length(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise UnfitError(f"This has {len(text)} characters: use at most {MAX_TEXT}.")


def _check_timeout(row: Tool) -> None:
    limit, seconds = conf.get().tool_timeout_max_seconds, row.timeout_seconds
    if seconds is not None and not 0 < seconds <= limit:
        raise UnfitError(f"This must be more than 0 and at most {limit:g} seconds.")


def _is_positive(column: str) -> Callable[[Tool], None]:
    def check(row: Tool) -> None:
        number = getattr(row, column)
        if number is not None and number < 1:
            raise UnfitError("This must be at least 1; leave it empty for no limit.")

    return check


def _is_within(column: str, least: int, most: int) -> Callable[[Tool], None]:
    def check(row: Tool) -> None:
        number = getattr(row, column)
        if number is not None and not least <= number <= most:
            raise UnfitError(f"This must be {least} to {most}.")

    return check


def _is_as_in_code(switch: str, what: str) -> Callable[[Tool], None]:
    """What code switched on stays on."""

    def check(row: Tool) -> None:
        if in_force(row).get(switch) and not getattr(row, switch):
            raise UnfitError(f"The code {what}; that cannot be switched off here.")

    return check


def _check_retries(row: Tool) -> None:
    if not row.retries:
        return
    if row.retries > MAX_RETRIES:
        raise UnfitError(f"This must be at most {MAX_RETRIES}.")
    annotations = (row.preset_of or row).annotations
    if not (isinstance(annotations, dict) and annotations.get("idempotentHint") is True):
        raise UnfitError(
            "Only a tool that its code declares idempotent may be retried: "
            "a lost attempt may have done its work."
        )


def _check_queue(row: Tool) -> None:
    if row.queue and not QUEUE_NAME.fullmatch(row.queue):
        raise UnfitError("A queue is named by letters, digits and _.- only.")


_LIMIT_CHECKS: Final[dict[str, Callable[[Tool], None]]] = {
    "timeout": _check_timeout,
    "calls_per_minute": _is_positive("calls_per_minute"),
    "background": _is_as_in_code("background", "runs this tool in the background"),
    "retries": _check_retries,
    "queue": _check_queue,
    "priority": _is_within("priority", 0, MAX_PRIORITY),
    "max_running": _is_positive("max_running"),
    "needs_approval": _is_as_in_code("needs_approval", "has each call of this tool approved"),
    "approval_minutes": _is_within("approval_minutes", 1, MAX_APPROVAL_MINUTES),
    "four_eyes": _is_as_in_code("four_eyes", "has a user other than the caller approve"),
}


def _check_prompt(row: Prompt, errors: Errors) -> None:
    _collect(errors, "name", lambda: check_name(row.name))
    _collect(errors, "arguments", lambda: _check_arguments(row.arguments))
    _collect(errors, "template", lambda: _check_template(row, "arguments" not in errors))


def _check_arguments(arguments: Any) -> None:
    if not isinstance(arguments, list) or len(arguments) > MAX_ARGUMENTS:
        raise UnfitError(f"This must be a list of at most {MAX_ARGUMENTS} arguments.")
    seen: set[str] = set()
    for item in arguments:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise UnfitError('Each argument is an object such as {"name": "code", "required": true}.')
        name = item["name"]
        if not _ARGUMENT_NAME.fullmatch(name):
            raise UnfitError(f"The argument name {name!r} may have only letters, digits and '_'.")
        if name in seen:
            raise UnfitError(f"The argument {name!r} is listed twice.")
        seen.add(name)
        _check_argument_members(name, item)


def _check_argument_members(name: str, item: Mapping[str, Any]) -> None:
    if unknown := sorted(item.keys() - _ARGUMENT_MEMBERS):
        raise UnfitError(f"The argument {name!r} has an unknown member {unknown[0]!r}.")
    if not isinstance(item.get("required", False), bool):
        raise UnfitError(f"'required' of the argument {name!r} must be true or false.")
    if not all(isinstance(item.get(member, ""), str) for member in ("title", "description")):
        raise UnfitError(f"'title' and 'description' of the argument {name!r} must be text.")


def _check_template(row: Prompt, arguments_are_valid: bool) -> None:
    if not row.template.strip():
        raise UnfitError("A prompt needs a text.")
    _check_length(row.template)
    declared = {item["name"] for item in row.arguments} if arguments_are_valid else set()
    unknown = [name for name in placeholders(row.template) if name not in declared]
    if arguments_are_valid and unknown:
        named = ", ".join(f"{{{{{name}}}}}" for name in dict.fromkeys(unknown))
        verb, pronoun = ("is", "it") if named.count("{{") == 1 else ("are", "them")
        raise UnfitError(
            f"{named} {verb} not among the arguments; add {pronoun} there or correct {pronoun} here."
        )


def _check_preset(row: Tool, errors: Errors) -> None:
    _collect(errors, "name", lambda: check_name(row.name))
    _collect(errors, "preset_of", lambda: _check_base(row))
    if "preset_of" not in errors:
        _collect(errors, "fixed_arguments", lambda: _check_fixed(row))
    if row.enabled and errors.keys().isdisjoint(("name", "preset_of", "fixed_arguments")):
        _collect(errors, "name", lambda: _check_clients(row))


def _check_clients(row: Tool) -> None:
    if not conf.get().strict_schemas:
        return
    if found := refusals({"name": row.name, "inputSchema": arguments_of(row)}):
        raise UnfitError(" ".join(f"{each} {each.rule.remedy}" for each in found))


def _check_base(row: Tool) -> None:
    if row.preset_of is None:
        raise UnfitError("Choose the tool this is a preset of.")
    if row.preset_of.preset_of_id is not None:
        raise UnfitError("A preset cannot be made from another preset.")


def _check_fixed(row: Tool) -> None:
    fixed = row.fixed_arguments
    if not isinstance(fixed, dict):
        raise UnfitError("This must be a JSON object of argument names and values.")
    schema = row.preset_of.input_schema if row.preset_of else {}
    properties = schema.get("properties", {})
    if unknown := sorted(fixed.keys() - properties.keys()):
        raise UnfitError(
            f"The tool has no argument {unknown[0]!r}. It has: {', '.join(properties) or 'none'}."
        )
    only = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    try:
        validator = validation.compile_schema({**only, "type": "object", "properties": properties})
    except validation.SchemaError:
        return  # The tool itself is not offered then; its own page says why.
    if not validator.is_valid(fixed):
        raise UnfitError(validator.explain(fixed))


def _check_resource(row: Resource, errors: Errors) -> None:
    _collect(errors, "uri", lambda: _check_uri(row))
    _collect(errors, "mime_type", lambda: _check_mime_type(row.mime_type))
    _collect(errors, "annotations", lambda: _check_annotations(row.annotations))
    _collect(errors, "file", lambda: _check_file(row))
    _collect(errors, "text", lambda: _check_content_size(len(row.text.encode("utf-8", "replace"))))


def _check_uri(row: Resource) -> None:
    if uri_template.compile(row.uri).names:
        raise UnfitError("A URI with {placeholders} is a template; templates are defined in code.")
    if row.uri.lower().startswith("file:") and not row.text and not row.file:
        try:
            files.read_uri(row.uri, conf.get().resource_directories, conf.get().max_result_bytes * 3 // 4)
        except files.FileRefusedError as error:
            raise UnfitError(
                f"{error} Only files below MCP['RESOURCE_DIRECTORIES'] can be offered."
            ) from error


def _check_mime_type(mime_type: str) -> None:
    if mime_type and not _MIME_TYPE.fullmatch(mime_type):
        raise UnfitError("A MIME type looks like text/markdown.")


def _check_annotations(annotations: Any) -> None:
    if not isinstance(annotations, dict) or annotations.keys() - {"audience", "priority", "lastModified"}:
        raise UnfitError("This must be an object with 'audience', 'priority' and 'lastModified' only.")
    audience = annotations.get("audience", [])
    if not isinstance(audience, list) or any(role not in ("user", "assistant") for role in audience):
        raise UnfitError("'audience' is a list of 'user' and 'assistant'.")
    priority = annotations.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, (int, float)) or not 0 <= priority <= 1:
        raise UnfitError("'priority' is a number from 0 to 1.")
    if not isinstance(annotations.get("lastModified", ""), str):
        raise UnfitError("'lastModified' is a time such as 2025-11-25T12:00:00Z.")


def _check_file(row: Resource) -> None:
    if row.file and row.text:
        raise UnfitError("Give a text or a file, not both.")
    if row.file and not getattr(row.file, "_committed", True):
        _check_content_size(row.file.size)


def _check_content_size(size: int) -> None:
    limit = conf.get().max_result_bytes * 3 // 4
    if size > limit:
        raise UnfitError(f"This has {size} bytes; at most {limit} can be offered.")


def _check_template_row(_row: ResourceTemplate, errors: Errors) -> None:
    errors["uri_template"] = ["Resource templates are defined in code."]


_OWN_CHECKS: dict[type[Any], Callable[[Any, Errors], None]] = {
    Tool: _check_preset,
    Prompt: _check_prompt,
    Resource: _check_resource,
    ResourceTemplate: _check_template_row,
}
