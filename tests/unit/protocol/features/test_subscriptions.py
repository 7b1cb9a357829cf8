"""Messages of a subscription."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.features import subscriptions
from mcp_app.protocol.features.subscriptions import SUBSCRIPTION_ID, Notice, read_filter, read_names
from mcp_app.protocol.messages.jsonrpc import encode_id


@pytest.mark.requirement("SUB-03")
@pytest.mark.parametrize("request_id", [0, 1, "x", "", "1", 'é"\\', 2**70, -5])
def test_messages_carry_subscription_id_with_its_type(request_id: Any) -> None:
    tag = encode_id(request_id)
    update = orjson.loads(Notice("notifications/resources/updated", {"uri": "a://ü"}).tagged(tag))
    assert update["params"] == {"uri": "a://ü", "_meta": {SUBSCRIPTION_ID: orjson.loads(tag)}}
    changed = orjson.loads(Notice("notifications/tools/list_changed").tagged(tag))
    assert changed == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {"_meta": {SUBSCRIPTION_ID: orjson.loads(tag)}},
    }
    told = orjson.loads(subscriptions.acknowledgement(tag, {"toolsListChanged": True}))
    assert told["params"]["notifications"] == {"toolsListChanged": True}
    ended = orjson.loads(subscriptions.closing(request_id, {"io.modelcontextprotocol/serverInfo": {}}))
    assert ended["id"] == ended["result"]["_meta"][SUBSCRIPTION_ID] == orjson.loads(tag)
    assert ended["result"]["resultType"] == "complete"


def test_notice_is_tagged_for_different_ids_in_any_order() -> None:
    notice = Notice("notifications/tools/list_changed")
    tags = [b"1", b"1", b'"1"', b"1"]
    named = [orjson.loads(notice.tagged(tag))["params"]["_meta"][SUBSCRIPTION_ID] for tag in tags]
    assert named == [1, 1, "1", 1]


def test_notice_keeps_its_own_meta() -> None:
    notice = Notice("notifications/x", {"_meta": {"a.example/b": 1}, "n": None})
    assert orjson.loads(notice.tagged(b"7"))["params"] == {
        "n": None,
        "_meta": {"a.example/b": 1, SUBSCRIPTION_ID: 7},
    }


@pytest.mark.requirement("SUB-01")
@pytest.mark.parametrize(
    "params",
    [{}, {"notifications": None}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}}],
)
def test_malformed_filter_is_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        read_filter(params)


@pytest.mark.parametrize("asked", [None, {}, "a", [1], ["a", None]])
def test_names_must_be_list_of_strings(asked: Any) -> None:
    with pytest.raises(InvalidParams, match="list of strings"):
        read_names(asked, "resourceSubscriptions", 5)


@pytest.mark.requirement("SUB-11")
def test_names_are_deduplicated_and_bounded() -> None:
    assert read_names(["b", "a", "b"], "x", 2) == ["b", "a"]
    with pytest.raises(InvalidParams, match="at most 1"):
        read_names(["b", "a", "b"], "x", 1)
