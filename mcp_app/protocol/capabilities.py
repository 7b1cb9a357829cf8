"""The capabilities of client and server at ``initialize``, by protocol revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.versions import V2024_11_05, V2025_06_18, V2025_11_25, is_modern

# The client capabilities that the server can use, each with its members.
CLIENT: Final = {"roots": (), "sampling": ("tools", "context"), "elicitation": ("form", "url")}
EXTENSIONS: Final = "extensions"
EXPERIMENTAL: Final = "experimental"
# Longer declarations are not cached: clients choose the length, and the cache must stay small.
MEMO_BYTES: Final = 2048
MAX_EXTENSIONS: Final = 20
MAX_EXTENSION_NAME: Final = 128
# Limit for the settings of all extensions of a client. Beyond it, extensions are stored without settings.
MAX_SETTINGS_BYTES: Final = 2048


def server_capabilities(
    version: str,
    *,
    tools: bool,
    prompts: bool,
    resources: bool,
    subscribe: bool,
    completions: bool,
    logging: bool,
    list_changed: bool,
    extensions: Mapping[str, Any] | None = None,
    tasks: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the ``capabilities`` of an InitializeResult: exactly what the server offers (CAP-01, CAP-06).

    ``extensions`` maps the ids of extensions to their settings (CAP-05).
    """
    changes: dict[str, Any] = {"listChanged": True} if list_changed else {}
    found: dict[str, Any] = {}
    if tools:
        found["tools"] = dict(changes)
    if prompts:
        found["prompts"] = dict(changes)
    if resources:
        found["resources"] = {"subscribe": True, **changes} if subscribe else dict(changes)
    # 2024-11-05 has the completion method, but no capability for it (COMP-01).
    if completions and version != V2024_11_05:
        found["completions"] = {}
    if logging:
        found["logging"] = {}
    if extensions:
        found.update({member: dict(extensions) for member in extension_members(version)})
    if tasks is not None:
        found["tasks"] = tasks
    return found


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """The requests that the server may send to one client (CAP-02)."""

    roots: bool = False
    sampling: bool = False
    sampling_tools: bool = False
    sampling_context: bool = False
    elicitation_form: bool = False
    elicitation_url: bool = False

    @classmethod
    def parse(cls, capabilities: object, version: str = V2025_11_25) -> ClientCapabilities:
        """Parse the ``capabilities`` of an ``initialize`` request as the negotiated version defines them.

        Unknown members are ignored (GEN-02, DLG-000-04). Raise InvalidParams if a known member is not an
        object.
        """
        if not isinstance(capabilities, dict):
            raise InvalidParams("'capabilities' must be an object.")
        roots = _member(capabilities, "roots")
        sampling = _member(capabilities, "sampling")
        elicitation = _member(capabilities, "elicitation") if version >= V2025_06_18 else None
        newest = version >= V2025_11_25
        form = elicitation is not None and (not newest or "form" in elicitation or "url" not in elicitation)
        return cls(
            roots=roots is not None,
            sampling=sampling is not None,
            sampling_tools=newest and sampling is not None and _member(sampling, "tools") is not None,
            sampling_context=sampling is not None
            and (not newest or _member(sampling, "context") is not None),
            elicitation_form=form,
            elicitation_url=newest and elicitation is not None and _member(elicitation, "url") is not None,
        )


def required(needed: Iterable[str]) -> dict[str, Any]:
    """Convert names of ClientCapabilities fields to capabilities as a client declares them (CAP-03)."""
    found: dict[str, Any] = {}
    for name in needed:
        kind, _, part = name.partition("_")
        found.setdefault(kind, {}).update({part: {}} if part else {})
    return found


def known(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return only the capabilities that the server knows (GEN-02).

    The size of the result is limited, because it is stored with each session.
    """
    found: dict[str, Any] = {
        name: {member: {} for member in members if type(declared.get(member)) is dict}
        for name, members in CLIENT.items()
        if type(declared := capabilities.get(name)) is dict
    }
    for member in (EXTENSIONS, EXPERIMENTAL):
        declared = capabilities.get(member)
        if type(declared) is dict and (kept := _bounded(declared)):
            found[member] = kept
    return found


def _bounded(extensions: dict[str, Any]) -> dict[str, Any]:
    """Return the first valid extensions. Settings that exceed the size limit are replaced with ``{}``."""
    found: dict[str, Any] = {}
    room = MAX_SETTINGS_BYTES
    for name, settings in extensions.items():
        if len(name) > MAX_EXTENSION_NAME or type(settings) is not dict:
            continue
        if len(found) == MAX_EXTENSIONS:
            break
        size = len(orjson.dumps(settings))
        found[name] = settings if size <= room else {}
        room -= size if size <= room else 0
    return found


def extension_members(version: str) -> tuple[str, ...]:
    """Return the capabilities that contain extensions, for client and server. The last one wins (DLG-000-12).

    Revisions before 2026-07-28 define only ``experimental``. Nevertheless, published extensions such as MCP
    Apps are negotiated in ``extensions`` in these revisions as well.
    """
    return (EXTENSIONS,) if is_modern(version) else (EXPERIMENTAL, EXTENSIONS)


def declared_extensions(capabilities: dict[str, Any], version: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the extensions that a client declared, by extension id.

    If both members contain an id, the settings in ``extensions`` apply, and the other settings are dropped.
    """
    found: dict[str, dict[str, Any]] = {}
    for member in extension_members(version):
        declared = capabilities.get(member)
        if type(declared) is dict:
            found.update({name: each for name, each in declared.items() if type(each) is dict})
    return found


def declares(capabilities: dict[str, Any], extension: str, version: str) -> bool:
    """Return True if a client declared the extension in a member that its revision uses for extensions."""
    return any(
        type(declared := capabilities.get(member)) is dict and type(declared.get(extension)) is dict
        for member in extension_members(version)
    )


def _member(parent: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = parent.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidParams(f"The capability {name!r} must be an object.")
    return value
