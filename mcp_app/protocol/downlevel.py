"""Reduction of definitions, results and messages to the members that a revision knows (GEN-01).

Internally everything has the form of 2025-11-25 with all its members. Arguments are never changed.
``complete`` adds the members that 2026-07-28 requires in every result.
"""

from __future__ import annotations

from typing import Any, Final

from mcp_app.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28

Wire = dict[str, Any]

# The revision that introduced each member. Members not listed here have existed since 2024-11-05.
_TITLED: Final = {"title": V2025_06_18, "_meta": V2025_06_18, "icons": V2025_11_25}
_SINCE: Final[dict[str, dict[str, str]]] = {
    "tool": {
        **_TITLED,
        "annotations": V2025_03_26,
        "outputSchema": V2025_06_18,
        "execution": V2025_11_25,
    },
    "prompt": _TITLED,
    "resource": _TITLED,
    "template": _TITLED,
    "argument": {"title": V2025_06_18},
    "annotations": {"lastModified": V2025_06_18},
    "contents": {"_meta": V2025_06_18},
    "block": {"_meta": V2025_06_18, "icons": V2025_11_25},
    "implementation": {
        "title": V2025_06_18,
        "description": V2025_11_25,
        "icons": V2025_11_25,
        "websiteUrl": V2025_11_25,
    },
    "capabilities": {"completions": V2025_03_26, "tasks": V2025_11_25},
}
_METHOD_SINCE: Final = {
    "elicitation/create": V2025_06_18,
    "notifications/elicitation/complete": V2025_11_25,
    "notifications/tasks/status": V2025_11_25,
}
# Messages that exist only in the legacy era.
_ENDED: Final = frozenset(("notifications/elicitation/complete", "notifications/tasks/status"))
_LISTS: Final = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "template"),
}
# CACHE-01: the methods whose results have cache hints. Results depend on the caller's permissions and must
# not be shared (CACHE-04). Subscribers are notified of changes, so the time to live is 0.
CACHEABLE: Final = frozenset((*_LISTS, "resources/read", "server/discover"))
CACHE_HINTS: Final = {"ttlMs": 0, "cacheScope": "private"}


def _cut(kind: str, wire: Wire, version: str) -> Wire:
    since = _SINCE[kind]
    return {name: value for name, value in wire.items() if since.get(name, "") <= version}


def definition(kind: str, wire: Wire, version: str) -> Wire:
    """Reduce a ``tool``, ``prompt``, ``resource`` or ``template`` in a list to the revision."""
    if kind == "tool":
        return _tool(wire, version)
    if version >= V2025_11_25:
        return wire
    cut = _with_annotations(_cut(kind, wire, version), version)
    if "arguments" in cut:
        cut["arguments"] = [_cut("argument", argument, version) for argument in cut["arguments"]]
    return cut


def _tool(wire: Wire, version: str) -> Wire:
    cut = _cut("tool", wire, version)
    if version >= V2026_07_28:
        cut.pop("execution", None)
        return cut
    # TOOL-18: before 2026-07-28 a structured result is always an object.
    if "outputSchema" in cut and cut["outputSchema"].get("type") != "object":
        del cut["outputSchema"]
    for member in ("inputSchema", "outputSchema"):
        if member in cut:
            cut[member] = _without_boolean_properties(cut[member])
    return cut


def _without_boolean_properties(schema: Wire) -> Wire:
    """Rewrite ``true`` and ``false`` as objects. Before 2026-07-28, the schema of a property is an object."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    objects: dict[bool, Wire] = {True: {}, False: {"not": {}}}
    settled = {name: objects[each] if isinstance(each, bool) else each for name, each in properties.items()}
    return {**schema, "properties": settled}


def _with_annotations(cut: Wire, version: str) -> Wire:
    """Reduce the annotations of a resource or content block in place. ``cut`` must be a copy."""
    if "annotations" in cut:
        cut["annotations"] = _cut("annotations", cut["annotations"], version)
    return cut


def block(wire: Wire, version: str) -> Wire:
    """Reduce a content block to the revision. A kind that it lacks becomes a text block (TOOL-14)."""
    if version >= V2025_11_25:
        return wire
    kind = wire["type"]
    if kind == "resource_link" and version < V2025_06_18:
        return {"type": "text", "text": f"{wire.get('title') or wire['name']}: {wire['uri']}"}
    if kind == "audio" and version < V2025_03_26:
        return {
            "type": "text",
            "text": f"[A recording of type {wire['mimeType']}, not supported by this client]",
        }
    cut = _with_annotations(_cut("block", wire, version), version)
    if kind == "resource":
        cut["resource"] = _cut("contents", cut["resource"], version)
    return cut


def result(method: str, result: Wire, version: str) -> Wire:
    """Reduce the result of ``method`` to the revision."""
    if method == "tools/call":
        return _call_result(result, version)
    if method in _LISTS:
        name, kind = _LISTS[method]
        return {**result, name: [definition(kind, item, version) for item in result[name]]}
    if version >= V2025_11_25:
        return result
    if method == "prompts/get":
        return {**result, "messages": [_prompt_message(message, version) for message in result["messages"]]}
    if method == "resources/read":
        return {**result, "contents": [_cut("contents", item, version) for item in result["contents"]]}
    if method == "initialize":
        return _initialize_result(result, version)
    return result


def _call_result(result: Wire, version: str) -> Wire:
    has_structure = "structuredContent" in result
    keeps_structure = has_structure and (
        version >= V2026_07_28 or (version >= V2025_06_18 and isinstance(result["structuredContent"], dict))
    )
    if version >= V2025_11_25 and has_structure == keeps_structure:
        return result
    cut = {**result, "content": [block(item, version) for item in result.get("content", [])]}
    if has_structure and not keeps_structure:
        del cut["structuredContent"]
    return cut


def _prompt_message(message: Wire, version: str) -> Wire:
    return {**message, "content": block(message["content"], version)}


def _initialize_result(result: Wire, version: str) -> Wire:
    return {
        **result,
        "serverInfo": _cut("implementation", result["serverInfo"], version),
        "capabilities": _cut("capabilities", result["capabilities"], version),
    }


def complete(method: str, result: Wire, meta: Wire) -> Wire:
    """Add what 2026-07-28 requires: the result type (META-05), cache hints and the server's ``meta``.

    A result that already has a ``resultType``, such as a question to the user, is not complete. It gets no
    hints (CACHE-02).
    """
    merged = {**result["_meta"], **meta} if "_meta" in result else meta
    if "resultType" in result:
        return {**result, "_meta": merged}
    hints = CACHE_HINTS if method in CACHEABLE else {}
    return {"resultType": "complete", **hints, **result, "_meta": merged}


def message(method: str, params: Wire, version: str) -> Wire | None:
    """Return the params of a message to the client, or None if the revision does not have the message."""
    if version >= V2026_07_28:
        return None if method in _ENDED else _without_elicitation_id(params)
    if version >= V2025_11_25:
        return params
    if version < _METHOD_SINCE.get(method, ""):
        return None
    if method == "notifications/progress" and version < V2025_03_26:
        return {name: value for name, value in params.items() if name != "message"}
    if method == "elicitation/create":
        return _form(params)
    if method == "sampling/createMessage":
        return _sampling(params, version)
    return params


def _without_elicitation_id(params: Wire) -> Wire:
    """Drop ``elicitationId`` (ELI-09), because the server knows which call an elicitation belongs to."""
    if "elicitationId" not in params:
        return params
    return {name: value for name, value in params.items() if name != "elicitationId"}


def why_not(method: str, params: Wire, version: str) -> str:
    """Return the reason why ``message`` returned None, as a sentence for the author of a tool."""
    if version < _METHOD_SINCE.get(method, ""):
        return f"{method} does not exist in protocol revision {version}, which the client uses."
    if params.get("mode") == "url":
        return f"Clients of protocol revision {version} cannot be asked to open a URL."
    if method == "elicitation/create":
        return f"Clients of protocol revision {version} cannot show a choice of several values."
    return f"Clients of protocol revision {version} cannot sample with tools."


def _form(params: Wire) -> Wire | None:
    """Reduce a form to 2025-06-18: no mode, no multiple choice, defaults only for booleans (ELI-04)."""
    if params.get("mode", "form") != "form":
        return None
    schema = params["requestedSchema"]
    members = {name: _member(member) for name, member in schema["properties"].items()}
    if None in members.values():
        return None
    cut = {name: value for name, value in params.items() if name != "mode"}
    return {**cut, "requestedSchema": {**schema, "properties": members}}


def _member(member: Wire) -> Wire | None:
    if member["type"] == "array":
        return None
    cut = {name: value for name, value in member.items() if name != "default" or member["type"] == "boolean"}
    titled = cut.pop("oneOf", None)
    if titled is not None:
        cut["enum"] = [choice["const"] for choice in titled]
        cut["enumNames"] = [choice["title"] for choice in titled]
    return cut


def _sampling(params: Wire, version: str) -> Wire | None:
    """Reduce sampling to revisions before 2025-11-25: no tools, and one content block per message.

    A message with several blocks is split. Return None if the request needs tools.
    """
    if "tools" in params or "toolChoice" in params:
        return None
    messages = []
    for sent in params["messages"]:
        content = sent["content"]
        for item in content if isinstance(content, list) else [content]:
            if item["type"] in ("tool_use", "tool_result"):
                return None
            messages.append({"role": sent["role"], "content": block(item, version)})
    return {**params, "messages": messages}
