"""Checks of prompts and resources that administrators create."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.sources.checking import Errors, UnfitError, check_length, collect
from mcp_app.catalogue.sources.content import files
from mcp_app.catalogue.sources.content.rendering import in_single_braces, placeholders, unclosed
from mcp_app.models import Prompt, Resource
from mcp_app.protocol.messages import uri_template
from mcp_app.protocol.messages.names import check_name

MAX_ARGUMENTS: Final = 50
# The scheme of resources whose URI was entered without a scheme.
SCHEME: Final = "resource://"

_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MIME_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}(;\s*[\w-]+=[\w.\"-]+)*")
_ARGUMENT_MEMBERS: Final = frozenset({"name", "title", "description", "required"})


def check_prompt(row: Prompt, errors: Errors) -> None:
    """Add the problems of a prompt to ``errors``."""
    collect(errors, "name", lambda: check_name(row.name))
    collect(errors, "arguments", lambda: _check_arguments(row.arguments))
    collect(errors, "template", lambda: _check_template(row, "arguments" not in errors))


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
        raise UnfitError("A prompt needs a template.")
    check_length(row.template)
    declared = {item["name"] for item in row.arguments} if arguments_are_valid else set()
    unknown = [name for name in placeholders(row.template) if name not in declared]
    if arguments_are_valid and unknown:
        named = ", ".join(f"{{{{{name}}}}}" for name in dict.fromkeys(unknown))
        verb, pronoun = ("is", "it") if named.count("{{") == 1 else ("are", "them")
        raise UnfitError(
            f"{named} {verb} not among the arguments; add {pronoun} there or correct {pronoun} here."
        )


def prompt_warnings(row: Prompt) -> Errors:
    """Return warnings about names in wrong braces. The text may contain them on purpose."""
    warnings = [*_single_braces(row.template), *_open_braces(row.template)]
    return {"template": warnings} if warnings else {}


def _open_braces(template: str) -> Iterator[str]:
    for name in unclosed(template):
        yield f"{{{{{name} is plain text, because }}}} does not follow. Did you mean {{{{{name}}}}}?"


def _single_braces(template: str) -> Iterator[str]:
    names = in_single_braces(template)
    if not names:
        return
    written = ", ".join(f"{{{name}}}" for name in names)
    meant = ", ".join(f"{{{{{name}}}}}" for name in names)
    verb = "is" if len(names) == 1 else "are"
    yield f"{written} {verb} plain text. Did you mean {meant}?"


def check_resource(row: Resource, errors: Errors) -> None:
    """Add the problems of a resource to ``errors``."""
    collect(errors, "uri", lambda: _check_uri(row))
    collect(errors, "mime_type", lambda: _check_mime_type(row.mime_type))
    collect(errors, "annotations", lambda: _check_annotations(row.annotations))
    collect(errors, "file", lambda: _check_file(row))
    collect(errors, "text", lambda: _check_content_size(len(row.text.encode("utf-8", "replace"))))


def _check_uri(row: Resource) -> None:
    if not uri_template.has_scheme(row.uri):
        raise UnfitError(f"A URI begins with a scheme, such as {with_scheme(row.uri)}.")
    try:
        names = uri_template.compile(row.uri).names
    except ValueError as error:
        raise UnfitError(str(error).replace("URI template", "URI", 1)) from error
    if names:
        raise UnfitError("A URI with {placeholders} is a template; templates are defined in code.")
    if row.uri.lower().startswith("file:") and not row.text and not row.file:
        try:
            files.read_uri(row.uri, conf.get().resource_directories, conf.get().max_result_bytes * 3 // 4)
        except files.FileRefusedError as error:
            raise UnfitError(
                f"{error} Only files below MCP['RESOURCE_DIRECTORIES'] can be offered."
            ) from error


def with_scheme(uri: str) -> str:
    """Return a URI. Text without a scheme becomes a ``resource://`` URI."""
    return uri if not uri or uri_template.has_scheme(uri) else f"{SCHEME}{uri.lstrip('/')}"


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
