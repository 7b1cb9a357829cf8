"""The common members of definitions on the wire: name, title, description, icons and ``_meta``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypedDict, TypeVar

from mcp_app.catalogue.definitions.definition import DefinitionError, Wire
from mcp_app.catalogue.definitions.signatures import code_path
from mcp_app.catalogue.definitions.tags import MAX_TAGS, tag_of, tags_of
from mcp_app.catalogue.definitions.typing_rules import translated
from mcp_app.protocol.messages import names
from mcp_app.protocol.messages.icons import check_icon
from mcp_app.protocol.messages.meta import check_own_keys

_PERMISSION = re.compile(r"\w+\.\w+")
Icon = str | Mapping[str, Any]


class EntryKeywords(TypedDict, total=False):
    """The options of every decorator, for the type checker."""

    name: str
    title: str
    description: str
    icons: Iterable[Icon]
    meta: Mapping[str, Any] | None
    tags: Iterable[str]
    permission: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOptions:
    """The decorator options of all kinds of entries. An unknown option raises TypeError."""

    name: str = ""
    title: str = ""
    description: str = ""
    icons: Iterable[Icon] = ()
    meta: Mapping[str, Any] | None = None
    tags: Iterable[str] = ()
    permission: str = ""


Options = TypeVar("Options", bound=EntryOptions)


def read_options(kind: type[Options], function: Callable[..., Any], options: Mapping[str, Any]) -> Options:
    """Parse the decorator options of ``function``. Raises TypeError for an unknown option."""
    check_options(code_path(function), options, (option.name for option in fields(kind)))
    return kind(**options)


def check_options(where: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for an unknown option. The message suggests the most similar known option."""
    names = sorted(known)
    for name in options:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            meant = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(names)}."
            raise TypeError(f"{where}: unknown option {name!r}. {meant}")


def check_name(where: str, name: str) -> str:
    """Return the name if it is legal (TOOL-06). Raises DefinitionError."""
    try:
        return names.check_name(name)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error} Give it one with name=...") from error


def check_permission(where: str, permission: str) -> str:
    """Return a permission that is empty or ``app_label.codename``. Raises DefinitionError."""
    if permission and not _PERMISSION.fullmatch(permission):
        raise DefinitionError(f"{where}: permission {permission!r} must look like 'app_label.codename'.")
    return permission


def display_title(name: str) -> str:
    """Return a title for a name: ``Get timestamp`` for ``get_timestamp``."""
    words = re.sub(r"[_.-]+", " ", name).strip()
    return words[:1].upper() + words[1:]


def shared_wire(where: str, name: str, options: EntryOptions, documented: str) -> Wire:
    """Build ``name``, ``title``, ``description``, ``icons`` and ``_meta``, as far as they are set."""
    wire: Wire = {"name": name, "title": translated(options.title) or display_title(name)}
    if description := translated(options.description) or documented:
        wire["description"] = description
    if icons := [_icon(where, icon) for icon in options.icons]:
        wire["icons"] = icons
    if meta := _meta(where, options):
        wire["_meta"] = meta
    return wire


def _icon(where: str, icon: Icon) -> dict[str, Any]:
    wire = {"src": icon} if isinstance(icon, str) else dict(icon)
    try:
        check_icon(wire)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from error
    return wire


def _meta(where: str, options: EntryOptions) -> dict[str, Any]:
    meta = dict(options.meta or {})
    try:
        check_own_keys(meta)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from error
    if isinstance(options.tags, str):
        raise DefinitionError(f"{where}: tags is a list of words, got the string {options.tags!r}.")
    if tags := _tags(where, options.tags):
        meta["tags"] = tags
    return meta


def _tags(where: str, given: Iterable[Any]) -> list[str]:
    """Return sorted tags. Capitals and blanks are converted, because earlier versions allowed them."""
    texts = list(given)
    for text in texts:
        if not (isinstance(text, str) and tag_of(text)):
            raise DefinitionError(f"{where}: the tag {text!r} needs letters a to z or digits.")
    tags = tags_of(texts)
    if len(tags) > MAX_TAGS:
        raise DefinitionError(f"{where}: {len(tags)} tags are given: use at most {MAX_TAGS}.")
    return tags
