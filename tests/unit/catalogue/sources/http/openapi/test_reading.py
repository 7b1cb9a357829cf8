"""Documents are read within bounds, and an unusable one has one clear sentence (INT-20)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.catalogue.sources.http.openapi import reading, yaml_values
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError, read
from tests.unit.catalogue.sources.http.openapi.documents import document

MINIMAL = {"openapi": "3.1.0", "paths": {"/x": {"get": {}}}}
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)
)

BAD: list[tuple[Any, str]] = [
    (b"", "is empty"),
    (b"   \n", "is empty"),
    (b"\xff\xfe\xfa", "not UTF-8"),
    (b"caf\xe9: 1", "not UTF-8 text (byte 3)"),
    (b"<!doctype html><title>API</title>", "a web page or XML"),
    (b'{"openapi": "3.0.0",', "not valid JSON"),
    (b"[1, 2]", "not an object with members"),
    (b"hello", "not an object with members"),
    (b"a: [b", "cannot be read as YAML at line"),
    (b"a: 1\n---\nb: 2", "a second document begins"),
    (b"a: !!python/object:os.system x", "tags (!) are not allowed"),
    (b"a: 1\na: 2", "the name 'a' occurs twice"),
    (b"a: *b", "the alias *b has no anchor"),
    (b"a: &a [*a]", "the alias *a has no anchor"),
    (BOMB.encode(), "aliases repeat more than 10000 values"),
    (b"[" * 500 + b"]" * 500, "not an object with members"),
    (("a: " + "[" * 300 + "]" * 300).encode(), "levels deep"),
    (b'{"a":' * 300 + b"1" + b"}" * 300, "nested more than 200 levels deep"),
    ({"info": {}}, "neither 'openapi' nor 'swagger'"),
    ({"swagger": "1.2", "paths": {}}, "Swagger 1.2 is not supported"),
    ({"openapi": "4.0.0", "paths": {}}, "OpenAPI 4.0.0 is not supported"),
    ({"asyncapi": "3.0.0"}, "AsyncAPI"),
    ({"item": [], "info": {}}, "Postman"),
    ({"log": {"entries": []}}, "HAR"),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "JSON Schema"),
    ({"openapi": "3.0.0", "paths": []}, "'paths' of this document is not an object"),
    ({"openapi": "3.0.0"}, "has no operations"),
    ({"openapi": "3.0.0", "paths": {"/x": {"parameters": []}}}, "has no operations"),
    ({"openapi": "3.0.0", "paths": {"/x": {"$ref": "#/paths/~1x"}}}, "has no operations"),
]


@pytest.mark.requirement("INT-20")
@pytest.mark.parametrize(("data", "reason"), BAD)
def test_unusable_document_has_one_clear_sentence(data: Any, reason: str) -> None:
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(DocumentError) as error:
        read(data)
    text = str(error.value)
    assert reason in text
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 300


def test_document_above_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DocumentError, match=r"has 50 MiB; at most 32 are read\."):
        read(b"{" + b" " * (50 * reading.MIB))


def test_too_many_operations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_OPERATIONS", 3)
    with pytest.raises(DocumentError, match="has 4 operations; at most 3 are read"):
        document({f"/{number}": {"get": {}} for number in range(4)})


@pytest.mark.requirement("INT-20")
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("openapi: 3.0.3\npaths: {/x: {get: {}}}", "3.0"),
        ("openapi: 3.1\npaths: {/x: {get: {}}}", "3.1"),
        ("openapi: '3.2.0'\npaths: {/x: {get: {}}}", "3.2"),
        ("swagger: 2.0\npaths: {/x: {get: {}}}", "2.0"),
        ("swagger: '2.0'\npaths: {/x: {get: {}}}", "2.0"),
        (json.dumps(MINIMAL), "3.1"),
        ("\ufeff" + json.dumps(MINIMAL), "3.1"),
        ("{openapi: 3.1.0, paths: {/x: {get: {}}}}", "3.1"),
    ],
)
def test_versions_and_notations_are_recognised(text: str, version: str) -> None:
    found = read(text.encode())
    assert found.version == version
    assert list(found.places) == ["GET /x"]


def test_yaml_has_values_of_its_core_schema() -> None:
    found = yaml_values.read(
        "date: 2024-01-01\nno: no\nyes: yes\nnull: ~\nn: 1\nf: 1.5\nt: true\nq: '1'\ns: !!str 1\n"
        "big: 12345678901234567890\nhuge: 123456789012345678901\nendless: 1e999"
    )
    assert found == {
        "date": "2024-01-01", "no": "no", "yes": "yes", "null": None, "n": 1, "f": 1.5, "t": True, "q": "1",
        "s": "1", "big": 12345678901234567890, "huge": 123456789012345678901.0, "endless": "1e999",
    }  # fmt: skip


def test_yaml_aliases_and_merge_keys_repeat_their_anchor() -> None:
    text = "base: &base {a: 1, b: 2}\none: *base\ntwo: {<<: *base, b: 3}\nthree: {<<: [*base, {c: 4}]}"
    found = yaml_values.read(text)
    assert found["one"] == {"a": 1, "b": 2}
    assert found["two"] == {"a": 1, "b": 3}
    assert found["three"] == {"a": 1, "b": 2, "c": 4}


def test_operations_are_found_by_stable_keys() -> None:
    found = document(
        {
            "/a/": {"get": {}, "parameters": [], "x-internal": {}},
            "/a": {"get": {}, "delete": {}},
            "/b": {"$ref": "#/components/pathItems/B"},
            "/bad": {"get": "nothing"},
            "no-slash": {"get": {}},
        },
        components={"pathItems": {"B": {"put": {}}}},
    )
    assert list(found.places) == ["GET /a/", "GET /a", "DELETE /a", "PUT /b"]
    assert found.places["GET /a/"].pointer == "#/paths/~1a~1/get"
    assert found.find("#/paths/~1a/get") == {}


@pytest.mark.parametrize("pointer", ["#/nothing", "#/servers/7", "other.json#/x", "#/openapi/x"])
def test_reference_that_leads_nowhere_is_an_error(pointer: str) -> None:
    with pytest.raises(KeyError):
        document().find(pointer)


def test_endless_reference_is_an_error() -> None:
    found = document(
        components={
            "schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
        }
    )
    with pytest.raises(KeyError):
        found.solved({"$ref": "#/components/schemas/A"})
