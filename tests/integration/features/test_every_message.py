"""One scenario over every feature for each revision: only messages that the revision publishes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import EVERYTHING, VERSIONS, Client
from tests.integration.features.forms import ANSWER, EVERY_FIELD, R3_FIELDS

SAMPLED = {
    "role": "assistant",
    "content": {"type": "text", "text": "Hello."},
    "model": "m",
    "stopReason": "endTurn",
}
REPLIES: dict[str, Any] = {
    "roots/list": {"roots": [{"uri": "file:///home/ada", "name": "home"}]},
    "sampling/createMessage": SAMPLED,
    "elicitation/create": lambda asked: {"action": "accept"} if asked.get("mode") == "url" else ANSWER,
}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("plain_text", {}),
    ("measure", {"size": 3, "tags": ["a"]}),
    ("measure", {"size": "wrong"}),
    ("no_content", {}),
    ("every_block", {}),
    ("dressed", {}),
    ("with_metadata", {}),
    *(
        (name, {})
        for name in ("model_result", "dataclass_result", "list_result", "unknown_list", "unknown_mapping")
    ),
    *((name, {}) for name in ("wrong_structure", "failed_structure", "fails_politely", "fails_unexpectedly")),
    ("report", {"values": [1, 2.5, 100], "total": 100}),
    ("log_every_level", {}),
    ("log_data", {}),
    (
        "sample",
        {"options": {"system_prompt": "Be brief.", "temperature": 0.5, "include_context": "thisServer"}},
    ),
    ("roots", {}),
    ("ask", {"form": EVERY_FIELD}),
    ("ask", {"form": R3_FIELDS}),
    ("ask_by_url", {"url": "https://pages.example/sign"}),
    ("demand_url", {}),
    ("nobody_made_this", {}),
]
READS = ("doc://text", "doc://binary", "doc://json", "doc://directory", "doc://item/1", "doc://unknown")
PROMPTS = [("simple", {}), ("greet", {"name": "Ada"}), ("every_content", {}), ("greet", {}), ("unknown", {})]
SEEN = {
    "2025-03-26": {"notifications/progress", "notifications/message", "roots/list", "sampling/createMessage"},
    "2025-06-18": {"elicitation/create"},
    "2025-11-25": {"notifications/elicitation/complete"},
}


def walk(client: Client) -> tuple[set[str], str]:
    """Use every feature once; return the methods that the server sent, and all text of its messages."""
    said = [client.converse(method) for method in (*LISTS, "ping")]
    for name, arguments in CALLS:
        meta = {"progressToken": f"token-{name}"}
        said.append(client.converse("tools/call", {"name": name, "arguments": arguments, "_meta": meta}))
    said += [client.converse("resources/read", {"uri": uri}) for uri in READS]
    said += [client.converse("prompts/get", {"name": name, "arguments": given}) for name, given in PROMPTS]
    said += [
        client.converse(f"resources/{way}", {"uri": "doc://text"}) for way in ("subscribe", "unsubscribe")
    ]
    said.append(client.converse("logging/setLevel", {"level": "debug"}))
    completing = {
        "ref": {"type": "ref/prompt", "name": "travel"},
        "argument": {"name": "word", "value": "word"},
    }
    said.append(client.converse("completion/complete", completing))
    methods = {message["method"] for conversation in said for message in conversation.before}
    return methods, json.dumps([[item.response, item.before] for item in said])


@pytest.mark.requirement(
    "GEN-01",
    "META-06",
    "TOOL-02",
    "TOOL-13",
    "TOOL-14",
    "TOOL-15",
    "TOOL-19",
    "PROMPT-01",
    "RES-01",
    "TPL-01",
    "ELI-04",
    "ICON-01",
    "TITLE-01",
    "ANN-01",
)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_server_message_is_valid_in_the_negotiated_revision(version: str, connect: Connect) -> None:
    client = connect(version, EVERYTHING, replies=REPLIES)
    methods, words = walk(client)
    expected = set().union(*(seen for revision, seen in SEEN.items() if revision <= version))
    assert methods == expected
    for modern in ("resultType", "ttlMs", "cacheScope"):
        assert f'"{modern}"' not in words
