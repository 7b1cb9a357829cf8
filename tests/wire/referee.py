"""Validates messages of the server by the published schema of a revision, and rejects unpublished members."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from tests.samples.published_schema import DIRECTORY

Schema = dict[str, Any]

RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
MESSAGES = {
    "notifications/cancelled": "CancelledNotification",
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/elicitation/complete": "ElicitationCompleteNotification",
    "notifications/tasks/status": "TaskStatusNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "roots/list": "ListRootsRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "elicitation/create": "ElicitRequest",
}
# The tasks extension of 2026-07-28 has its own schema.
TASKS = "ext-tasks"
EXTENDED = "2026-07-28"
TASK_RESULTS = {
    "tasks/get": "GetTaskResult",
    "tasks/update": "UpdateTaskResult",
    "tasks/cancel": "CancelTaskResult",
}
# Results of the skills extension; older revisions have neither result types nor cache hints.
SKILLS = "ext-skills"
SKILL_RESULTS = {
    "skills/list": "ListSkillsResult",
    "skills/get": "GetSkillResult",
    "resources/directory/read": "ReadResourceDirectoryResult",
}
# Methods that tests define themselves, as an app would.
INVENTED = ("shelves/", "notifications/shelves/")
# The core tasks of 2025-11-25; two results consist of a task only.
CORE = "2025-11-25"
CORE_RESULTS = {
    "tasks/get": "Task",
    "tasks/cancel": "Task",
    "tasks/list": "ListTasksResult",
    "tasks/result": "CallToolResult",
}
# Published for these revisions outside of their schemas, for MCP Apps and other extensions.
BESIDE = frozenset(("InitializeResult.capabilities.extensions",))
# Their content belongs to the application, not to the protocol.
OPEN = frozenset(("inputSchema", "outputSchema"))


def problems(version: str, message: dict[str, Any], method: str = "") -> list[str]:
    """Return problems of a server message; ``method`` is that of the request it answers."""
    if message.get("jsonrpc") != "2.0":
        return ["the member 'jsonrpc' is not '2.0'"]
    bare = {name: value for name, value in message.items() if name != "jsonrpc"}
    if "method" in message:
        return _message_problems(version, bare)
    if "id" not in message or bare.keys() not in ({"id", "result"}, {"id", "error"}):
        return [f"a response has the members {sorted(message)}"]
    if "error" in message:
        return error_problems(version, message)
    return _result_problems(version, method, message["result"])


def _result_problems(version: str, method: str, result: dict[str, Any]) -> list[str]:
    name = RESULTS.get(method, "")
    if version == EXTENDED and (method in TASK_RESULTS or result.get("resultType") == "task"):
        return _by_definition(TASKS, TASK_RESULTS.get(method, "CreateTaskResult"), result)
    if method in SKILL_RESULTS:
        older = "" if version == EXTENDED else "Older"
        return _by_definition(SKILLS, older + SKILL_RESULTS[method], result)
    if method.startswith(INVENTED):
        return _by_definition(version, "Result", result)
    if version == CORE:
        name = "CreateTaskResult" if method == "tools/call" and "task" in result else name
        name = CORE_RESULTS.get(method, name)
    if result.get("resultType") == "input_required":
        name = "InputRequiredResult"
    if name not in _definitions(version):
        return [f"{method!r} has no published result"]
    if name == "EmptyResult":
        return [] if result == {} else [f"{method} has an empty result"]
    return _by_definition(version, name, result)


def _message_problems(version: str, bare: dict[str, Any]) -> list[str]:
    name = MESSAGES.get(bare["method"], "")
    if bare["method"].startswith(INVENTED):
        return []
    if version == EXTENDED and bare["method"] == "notifications/tasks":
        return _by_definition(TASKS, "TaskStatusNotification", {"jsonrpc": "2.0", **bare})
    if version == EXTENDED and name == "SubscriptionsAcknowledgedNotification":
        bare = _without_task_ids(bare)
    if name not in _definitions(version):
        return [f"{bare['method']} is not published in {version}"]
    published = _definitions(version)[name]["properties"]
    asks = bare["method"] in ("roots/list", "sampling/createMessage", "elicitation/create")
    if asks != ("id" in bare):
        return [f"{bare['method']} has the members {sorted(bare)}"]
    # Older schemas omit the envelope of each message.
    whole = (
        {"jsonrpc": "2.0", **bare} if "jsonrpc" in published else {k: v for k, v in bare.items() if k != "id"}
    )
    return _by_definition(version, name, whole)


def _without_task_ids(bare: dict[str, Any]) -> dict[str, Any]:
    """Return an acknowledgement without the extension's additions, unless these are invalid."""
    params = bare.get("params", {})
    told = dict(params.get("notifications", {}))
    task_ids = told.pop("taskIds", None)
    is_right = isinstance(task_ids, list) and all(isinstance(each, str) for each in task_ids)
    return {**bare, "params": {**params, "notifications": told}} if is_right else bare


def error_problems(version: str, message: dict[str, Any]) -> list[str]:
    """Return problems of an error response, whose id may be missing where the revision allows that."""
    names = ("JSONRPCErrorResponse", "JSONRPCError")
    name = next(name for name in names if name in _definitions(version))
    return _by_definition(version, name, message)


def _by_definition(version: str, name: str, instance: Any) -> list[str]:
    node = {"$ref": f"#/{_key(version)}/{name}"}
    wrong = [
        f"{error.instance_path}: {error.message}"
        for error in _validator(version, _text(node)).iter_errors(instance)
    ]
    return wrong or list(_unpublished(version, node, instance, name))


def _unpublished(version: str, node: Schema, instance: Any, path: str) -> list[str]:
    """Return the members that no published form of the instance has."""
    if "$ref" in node:
        return _unpublished(version, _definitions(version)[node["$ref"].rpartition("/")[2]], instance, path)
    if "anyOf" in node:
        fitting = [
            branch for branch in node["anyOf"] if _validator(version, _text(branch)).is_valid(instance)
        ]
        return min((_unpublished(version, branch, instance, path) for branch in fitting), key=len, default=[])
    if isinstance(instance, list):
        items = node.get("items", {})
        return [
            found
            for n, item in enumerate(instance)
            for found in _unpublished(version, items, item, f"{path}[{n}]")
        ]
    if not isinstance(instance, dict) or "properties" not in node:
        return [] if not isinstance(instance, dict) else _values(version, node, instance, path)
    found = []
    for member, value in instance.items():
        if member in node["properties"]:
            if member not in OPEN:
                found += _unpublished(version, node["properties"][member], value, f"{path}.{member}")
        elif "additionalProperties" not in node and not _is_free(path, member):
            found.append(f"{path}.{member} is not published in {version}")
    return found


def _is_free(path: str, member: str) -> bool:
    """Return True if a server may add a member: in ``_meta``, with a prefix other than MCP's own."""
    prefix, slash, _ = member.partition("/")
    labels = prefix.split(".")
    own = path.endswith("._meta") and slash and not {"modelcontextprotocol", "mcp"} & set(labels[1:2])
    return bool(own) or f"{path}.{member}" in BESIDE


def _values(version: str, node: Schema, instance: dict[str, Any], path: str) -> list[str]:
    inner = node.get("additionalProperties")
    if not isinstance(inner, dict):
        return []
    return [
        found
        for name, value in instance.items()
        for found in _unpublished(version, inner, value, f"{path}.{name}")
    ]


@cache
def _document(version: str) -> Schema:
    document: Schema = orjson.loads((DIRECTORY / f"{version}.json").read_bytes())
    return document


def _key(version: str) -> str:
    return "$defs" if "$defs" in _document(version) else "definitions"


def _definitions(version: str) -> dict[str, Schema]:
    found: dict[str, Schema] = _document(version)[_key(version)]
    return found


def _text(node: Schema) -> bytes:
    return orjson.dumps(node)


@cache
def _validator(version: str, node: bytes) -> Any:
    key = _key(version)
    schema = {"$schema": _document(version)["$schema"], key: _definitions(version), **orjson.loads(node)}
    return jsonschema_rs.validator_for(schema, validate_formats=True)
