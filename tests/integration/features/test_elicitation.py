"""Elicitation by form and by URL."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import ASKING, VERSIONS, Client, Fail
from tests.integration.features.forms import ANSWER, CHOICES, CONTENT, EVERY_FIELD, R3_FIELDS

NEWEST = VERSIONS[-1]
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ADA = {"action": "accept", "content": {"name": "Ada"}}
EVE = {"action": "accept", "content": {"name": "Eve"}}
PAGE = "https://pages.example/sign?step=1"


def asker(connect: Connect, version: str, reply: Any, **capability: Any) -> Client:
    return connect(version, {"elicitation": capability}, replies={"elicitation/create": reply})


@pytest.mark.requirement("ELI-01", "ELI-05")
@pytest.mark.parametrize("version", ASKING)
@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
@pytest.mark.parametrize(
    "answer",
    [ADA, {"action": "decline"}, {"action": "cancel"}, {"action": "decline", "content": {"name": "x"}}],
)
def test_accept_decline_and_cancel_are_distinguished(
    version: str, tool: str, answer: dict[str, Any], connect: Connect
) -> None:
    said = asker(connect, version, answer).use(tool, form=NAME_FORM)
    (asked,) = said.told("elicitation/create")
    mode = {"mode": "form"} if version == NEWEST else {}
    assert asked == {**mode, "message": "Please fill in.", "requestedSchema": NAME_FORM}
    content = answer["content"] if answer["action"] == "accept" else {}
    assert json.loads(said.text) == {"action": answer["action"], "content": content}


@pytest.mark.requirement("ELI-01", "ELI-02")
@pytest.mark.parametrize(
    ("version", "capabilities", "form", "url"),
    [
        ("2025-03-26", {"elicitation": {}}, False, False),
        ("2025-06-18", {}, False, False),
        ("2025-06-18", {"elicitation": {}}, True, False),
        ("2025-06-18", {"elicitation": {"url": {}}}, True, False),
        (NEWEST, {}, False, False),
        (NEWEST, {"elicitation": {}}, True, False),
        (NEWEST, {"elicitation": {"form": {}}}, True, False),
        (NEWEST, {"elicitation": {"url": {}}}, False, True),
        (NEWEST, {"elicitation": {"form": {}, "url": {}}}, True, True),
    ],
)
def test_undeclared_elicitation_mode_is_never_sent(
    version: str, capabilities: dict[str, Any], form: bool, url: bool, connect: Connect
) -> None:
    client = connect(version, capabilities, replies={"elicitation/create": {"action": "decline"}})
    by_form, by_url = client.use("ask", form=NAME_FORM), client.use("ask_by_url", url=PAGE)
    assert (bool(by_form.before), bool(by_url.before)) == (form, url)
    assert (by_form.failed, by_url.failed) == (not form, not url)


@pytest.mark.requirement("ELI-03")
def test_form_with_every_field_kind_is_sent_unchanged(connect: Connect) -> None:
    said = asker(connect, NEWEST, ANSWER).use("ask", form=EVERY_FIELD)
    assert said.told("elicitation/create")[0]["requestedSchema"] == EVERY_FIELD
    assert json.loads(said.text)["content"] == CONTENT


WRONG_FORMS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
    {"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}},
    {"type": "object", "properties": {"a": {"type": "null"}}},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
    {"type": "string"},
    {},
]


@pytest.mark.requirement("ELI-03")
@pytest.mark.parametrize("form", WRONG_FORMS, ids=lambda form: json.dumps(form)[:60])
def test_form_that_is_not_flat_is_not_sent(form: dict[str, Any], connect: Connect) -> None:
    said = asker(connect, NEWEST, ANSWER).use("ask", form=form)
    assert (said.failed, said.before) == (True, [])


@pytest.mark.requirement("ELI-04")
def test_form_for_2025_06_18_has_only_supported_fields(connect: Connect) -> None:
    fields = EVERY_FIELD["properties"]
    single = {name: field for name, field in fields.items() if field["type"] != "array"}
    said = asker(connect, "2025-06-18", ANSWER).use("ask", form={**EVERY_FIELD, "properties": single})
    sent = said.told("elicitation/create")[0]["requestedSchema"]["properties"]
    assert sent.keys() == single.keys()
    assert [name for name, field in sent.items() if "default" in field] == ["sure"]
    assert sent["size"] == {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    assert {name: sent[name] for name in R3_FIELDS["properties"]} == R3_FIELDS["properties"]


@pytest.mark.requirement("ELI-04")
def test_multiple_choice_for_2025_06_18_fails_with_an_explanation(connect: Connect) -> None:
    said = asker(connect, "2025-06-18", ANSWER).use("ask", form=EVERY_FIELD)
    assert (said.failed, said.before) == (True, [])
    assert "choice of several values" in said.text


WRONG_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({}, "name"),
    ({"name": 5}, "name"),
    ({"name": ""}, "name"),
    ({"name": "x" * 41}, "name"),
    ({"name": "Ada", "mail": "nowhere"}, "mail"),
    ({"name": "Ada", "page": "not an address"}, "page"),
    ({"name": "Ada", "day": "2025-02-30"}, "day"),
    ({"name": "Ada", "moment": "noon"}, "moment"),
    ({"name": "Ada", "age": -1}, "age"),
    ({"name": "Ada", "age": 1.5}, "age"),
    ({"name": "Ada", "age": True}, "age"),
    ({"name": "Ada", "sure": "yes"}, "sure"),
    ({"name": "Ada", "colour": "Red"}, "colour"),
    ({"name": "Ada", "size": "Small"}, "size"),
    ({"name": "Ada", "some": []}, "some"),
    ({"name": "Ada", "some": ["p", "z"]}, "some"),
    ({"name": "Ada", "sizes": "s"}, "sizes"),
]


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize(("content", "field"), WRONG_ANSWERS, ids=lambda value: str(value)[:40])
def test_response_that_does_not_fit_the_form_names_the_field(
    content: dict[str, Any], field: str, connect: Connect
) -> None:
    said = asker(connect, NEWEST, {"action": "accept", "content": content}).use("ask", form=EVERY_FIELD)
    assert said.failed
    assert f"'{field}'" in said.text


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize("version", ASKING)
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "accept"},
        {"action": "accept", "content": ["Ada"]},
        {"action": "maybe"},
        {},
        Fail(-32603, "No"),
    ],
    ids=str,
)
def test_response_without_action_or_content_is_a_tool_error(
    version: str, answer: Any, connect: Connect
) -> None:
    assert asker(connect, version, answer).use("ask", form=NAME_FORM).failed


@pytest.mark.requirement("ELI-06")
@pytest.mark.parametrize(
    "field",
    [{"password": {"type": "string"}}, {"apiKey": {"type": "string"}}, {"access_token": {"type": "string"}},
     {"a": {"type": "string", "title": "Credit card number"}}],
)  # fmt: skip
def test_form_that_asks_for_a_secret_is_not_sent(field: dict[str, Any], connect: Connect) -> None:
    said = asker(connect, NEWEST, ANSWER).use("ask", form={"type": "object", "properties": field})
    assert (said.failed, said.before) == (True, [])


@pytest.mark.requirement("ELI-07")
def test_url_elicitation_has_an_id_and_is_completed_later(connect: Connect) -> None:
    said = asker(connect, NEWEST, {"action": "accept"}, url={}).use("ask_by_url", url=PAGE)
    assert said.told("elicitation/create") == [
        {"mode": "url", "message": "Please sign there.", "url": PAGE, "elicitationId": "signature-1"}
    ]
    assert said.told("notifications/elicitation/complete") == [{"elicitationId": "signature-1"}]
    assert said.text == "accept"


@pytest.mark.requirement("ELI-07")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_declined_url_elicitation_is_not_completed(action: str, connect: Connect) -> None:
    said = asker(connect, NEWEST, {"action": action}, url={}).use("ask_by_url", url=PAGE)
    assert said.text == action
    assert said.told("notifications/elicitation/complete") == []


@pytest.mark.requirement("ELI-08")
def test_url_elicitation_required_error_exists_since_2025_11_25(client: Client) -> None:
    said = client.use("demand_url")
    if client.version != NEWEST:
        assert (said.failed, said.text) == (True, "Agree first.")
        return
    assert said.error["code"] == -32042
    (step,) = said.error["data"]["elicitations"]
    assert step.keys() == {"mode", "elicitationId", "url", "message"}
    assert step["mode"] == "url"


@pytest.mark.requirement("ELI-10")
@pytest.mark.parametrize(
    "url",
    ["http://pages.example/", "https://ada:pass@pages.example/", "javascript:alert(1)", "file:///etc/passwd",
     "https://", "https://pages.example/ x", "pages.example"],
)  # fmt: skip
def test_url_without_https_or_with_credentials_is_not_sent(url: str, connect: Connect) -> None:
    said = asker(connect, NEWEST, {"action": "accept"}, url={}).use("ask_by_url", url=url)
    assert (said.failed, said.before) == (True, [])


@pytest.mark.requirement("ELI-12")
def test_another_principal_cannot_answer_an_elicitation(connect: Connect, keys: dict[str, str]) -> None:
    client = connect(NEWEST, {"elicitation": {}}, token=keys["reader"])
    stranger = connect(token=keys["stranger"])
    with client.open_call("tools/call", {"name": "ask", "arguments": {"form": NAME_FORM}}) as stream:
        question = client.judge(stream.message())
        stranger.session = client.session
        assert (
            stranger.respond(question["id"], {"action": "accept", "content": {"name": "Eve"}}).status == 404
        )
        assert stream.quiet(0.2)
        client.respond(question["id"], ADA)
        (answer,) = stream.messages()
    assert "Ada" in answer["result"]["content"][0]["text"]


@pytest.mark.requirement("ELI-12")
def test_another_session_cannot_answer_an_elicitation(connect: Connect) -> None:
    client, other = (connect(NEWEST, {"elicitation": {}}) for _ in range(2))
    with client.open_call("tools/call", {"name": "ask", "arguments": {"form": NAME_FORM}}) as stream:
        question = client.judge(stream.message())
        assert other.respond(question["id"], ADA).status == 202
        assert stream.quiet(0.2)
        client.respond(question["id"], ADA)
        assert len(stream.messages()) == 1


@pytest.mark.requirement("ELI-13")
def test_content_of_a_url_response_is_dropped(connect: Connect) -> None:
    answer = {"action": "accept", "content": {"token": "hunter2"}}
    said = asker(connect, NEWEST, answer, url={}).use("ask_by_url", url=PAGE)
    assert said.text == "accept"
    assert "hunter2" not in json.dumps([said.response, said.before])


TYPED: list[tuple[str, dict[str, Any], str]] = [
    ("bool", {"value": True}, "accept True True"),
    ("bool", {"value": False}, "accept False False"),
    ("str", {"value": "x"}, "accept True 'x'"),
    ("int", {"value": 3}, "accept True 3"),
    ("float", {"value": 1.5}, "accept True 1.5"),
    ("enum", {"value": "large"}, "accept True <Size.LARGE: 'large'>"),
    ("literal", {"value": "red"}, "accept True 'red'"),
    ("dataclass", {"city": "Bern", "days": 2}, "accept True Trip(city='Bern', days=2)"),
    ("typed_dict", {"name": "Rex", "age": 3}, "accept True {'name': 'Rex', 'age': 3}"),
    (
        "model",
        {"name": "Ada", "count": 2, "size": "large", "gift": True},
        "accept True Order(name='Ada', count=2, size=<Size.LARGE: 'large'>, gift=True, note=None)",
    ),
]


@pytest.mark.requirement("ELI-03", "ELI-05")
@pytest.mark.parametrize("version", ASKING)
@pytest.mark.parametrize(("kind", "content", "found"), TYPED, ids=[kind for kind, _, _ in TYPED])
def test_python_type_becomes_a_form_and_the_response_a_value(
    version: str, kind: str, content: dict[str, Any], found: str, connect: Connect
) -> None:
    client = asker(connect, version, {"action": "accept", "content": content})
    assert client.use("ask_type", kind=kind).text == found


@pytest.mark.requirement("ELI-14")
@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
def test_200_pending_elicitations_block_no_worker(tool: str, connect: Connect) -> None:
    client = connect(NEWEST, {"elicitation": {}})
    params = {"name": tool, "arguments": {"form": NAME_FORM}}
    with ExitStack() as stack:
        streams = [stack.enter_context(client.open_call("tools/call", params)) for _ in range(200)]
        questions = [client.judge(stream.message()) for stream in streams]
        begun = time.monotonic()
        assert client.use("plain_text").text == "plain"
        assert time.monotonic() - begun < 1 + SLACK
        for question in questions:
            client.respond(question["id"], ADA)
        answers = [stream.messages() for stream in streams]
    assert all(len(found) == 1 and "Ada" in found[0]["result"]["content"][0]["text"] for found in answers)


@pytest.mark.requirement("ELI-14")
def test_ending_the_session_ends_pending_calls(connect: Connect) -> None:
    client = connect(NEWEST, {"elicitation": {}})
    with client.open_call(
        "tools/call", {"name": "ask_in_thread", "arguments": {"form": NAME_FORM}}
    ) as stream:
        client.judge(stream.message())
        assert client.delete().status in (200, 204)
        stream.messages(2)
        assert stream.ended


def test_choice_titles_are_sent_to_the_newest_revision(connect: Connect) -> None:
    form = {"type": "object", "properties": {"size": {"type": "string", "oneOf": CHOICES}}}
    said = asker(connect, NEWEST, {"action": "accept", "content": {"size": "l"}}).use("ask", form=form)
    assert said.told("elicitation/create")[0]["requestedSchema"] == form
