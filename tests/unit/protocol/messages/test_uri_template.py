from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.messages import uri_template
from mcp_app.protocol.messages.uri_template import MAX_URI


@pytest.mark.requirement("TPL-02", "TPL-03")
@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
        ("demo://greeting/{name}", "demo://greeting/Ana", {"name": "Ana"}),
        ("demo://greeting/{name}", "demo://greeting/Jos%C3%A9%20B", {"name": "José B"}),
        ("demo://greeting/{name}", "demo://greeting/José", {"name": "José"}),
        ("demo://greeting/{name}", "demo://greeting/a..b", {"name": "a..b"}),
        ("demo://greeting/{name}", "demo://greeting/%252F", {"name": "%2F"}),
        ("demo://greeting/{name}", "demo://greeting/a+b", {"name": "a+b"}),
        ("a:{x}-{y}", "a:1-2-3", {"x": "1", "y": "2-3"}),
        ("a:{x}.json", "a:b.json.json", {"x": "b.json"}),
        ("a:{x}/{y}.{z}", "a:1/2.3", {"x": "1", "y": "2", "z": "3"}),
        ("f://{+path}", "f://a/b/c.txt", {"path": "a/b/c.txt"}),
        ("f://{root}/{+path}", "f://r/a/b", {"root": "r", "path": "a/b"}),
        ("f://{+path}/{name}.txt", "f://a/b/c.txt", {"path": "a/b", "name": "c"}),
        ("f://{u}/{+path}@{rev}", "f://u/a@b/c@1", {"u": "u", "path": "a@b/c", "rev": "1"}),
        ("a:fixed", "a:fixed", {}),
    ],
)
def test_matching_uri_returns_values(template: str, uri: str, values: dict[str, str]) -> None:
    assert uri_template.compile(template).match(uri) == values


@pytest.mark.requirement("TPL-03", "RES-05")
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("test://template/{id}/data", "test://template/..%2Fx/data"),
        ("test://template/{id}/data", "test://template/../data"),
        ("test://template/{id}/data", "test://template/%2e%2E/data"),
        ("test://template/{id}/data", "test://template/./data"),
        ("test://template/{id}/data", "test://template//data"),
        ("test://template/{id}/data", "test://template/data"),
        ("test://template/{id}/data", "test://template/1/2/data"),
        ("test://template/{id}/data", "test://template/1%2f2/data"),
        ("test://template/{id}/data", "test://template/1%5C2/data"),
        ("test://template/{id}/data", "test://template/1\\2/data"),
        ("test://template/{id}/data", "test://template/1%00/data"),
        ("test://template/{id}/data", "test://template/1%0A/data"),
        ("test://template/{id}/data", "test://template/1\x00/data"),
        ("test://template/{id}/data", "test://template/%ff/data"),
        ("test://template/{id}/data", "test://template/%C0%AE/data"),
        ("test://template/{id}/data", "test://template/%/data"),
        ("test://template/{id}/data", "test://template/%zz/data"),
        ("test://template/{id}/data", "xtest://template/1/data"),
        ("test://template/{id}/data", "test://template/1/data/"),
        ("test://template/{id}/data", "test://template/1/data\n"),
        ("test://template/{id}/data", "TEST://template/1/data"),
        ("test://template/{id}/data", "test://template/\ud800/data"),
        ("f://{+path}", "f://"),
        ("f://{+path}", "f:///etc/passwd"),
        ("f://{+path}", "f://a//b"),
        ("f://{+path}", "f://a/"),
        ("f://{+path}", "f://a/../b"),
        ("f://{+path}", "f://../b"),
        ("f://{+path}", "f://a/%2e%2e/b"),
        ("f://{+path}", "f://a/..\\b"),
        ("f://{+path}", "f://a%2Fb"),
        ("f://{+path}", "f://a\\..\\b"),
        ("f://ab{x}ba", "f://aba"),
        ("f://{x}-{y}", "f://-1"),
        ("f://{x}-{y}", "f://1"),
        ("f://{+p}/x/{y}", "f://a/b"),
        ("a:fixed", "a:fixed2"),
        ("f://{+path}", "f://" + "a" * MAX_URI),
    ],
)
def test_unsafe_or_different_uri_does_not_match(template: str, uri: str) -> None:
    assert uri_template.compile(template).match(uri) is None


@pytest.mark.requirement("TPL-02")
@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        (
            "demo://greeting/{name}",
            {"name": "José B/ä".replace("/", "")},
            "demo://greeting/Jos%C3%A9%20B%C3%A4",
        ),
        ("f://{+path}", {"path": "a b/c"}, "f://a%20b/c"),
        ("f://{a}?x={b}", {"a": "?", "b": "&", "unused": "x"}, "f://%3F?x=%26"),
    ],
)
def test_values_are_percent_encoded(template: str, values: dict[str, str], uri: str) -> None:
    assert uri_template.compile(template).expand(values) == uri


@pytest.mark.parametrize(("values"), [{}, {"name": ""}, {"name": "a/b"}, {"name": ".."}, {"name": "\x00"}])
def test_unreadable_values_are_not_expanded(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="'name'"):
        uri_template.compile("demo://greeting/{name}").expand(values)


@pytest.mark.requirement("TPL-02")
@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("", "scheme"),
        ("{x}", "scheme"),
        ("{+scheme}://a", "scheme"),
        ("/a/{x}", "scheme"),
        ("a:{x", "only {name} and {+path}"),
        ("a:x}", "only {name} and {+path}"),
        ("a:{}", "only {name} and {+path}"),
        ("a:{/x}", "only {name} and {+path}"),
        ("a:{?x}", "only {name} and {+path}"),
        ("a:{x,y}", "only {name} and {+path}"),
        ("a:{x*}", "only {name} and {+path}"),
        ("a:{x:3}", "only {name} and {+path}"),
        ("a:{1x}", "only {name} and {+path}"),
        ("a:{x}{y}", "between its variables"),
        ("a:{x}/{x}", "twice"),
        ("a:{+x}/{+y}", "only one"),
        ("a:b c", "no URI can have"),
        ("a:b\n", "no URI can have"),
        ("a:b\\c", "no URI can have"),
        ("a:" + "b" * MAX_URI, "more than"),
    ],
)
def test_unsupported_template_is_rejected_with_reason(template: str, problem: str) -> None:
    with pytest.raises(ValueError, match="URI template") as caught:
        uri_template.compile(template)
    assert problem in str(caught.value)


def test_names_keep_template_order() -> None:
    assert uri_template.compile("a:{b}/{a}").names == ("b", "a")


SAFE = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=20
)
SEGMENT = SAFE.filter(lambda text: text not in (".", ".."))


@given(SEGMENT, st.lists(SEGMENT, min_size=1, max_size=4))
def test_expanded_uri_matches_original_values(name: str, parts: list[str]) -> None:
    template = uri_template.compile("demo://{name}/files/{+path}")
    values = {"name": name, "path": "/".join(parts)}
    assert template.match(template.expand(values)) == values


@given(st.text(max_size=60))
def test_arbitrary_uri_matches_safely_or_not(rest: str) -> None:
    values = uri_template.compile("a:{x}-{+path}.{y}").match("a:" + rest)
    for value in (values or {}).values():
        assert value
        assert not {"..", "."} & set(value.split("/"))
        assert "\x00" not in value


@pytest.mark.parametrize(
    "template", ["a:" + "-".join(f"{{v{number}}}" for number in range(50)), "a:{x}aaab{+y}aaab"]
)
def test_hostile_uri_is_matched_quickly(template: str) -> None:
    compiled = uri_template.compile(template)
    started = time.process_time()
    for uri in ("a:" + "a" * 8000, "a:" + "-" * 8000, "a:" + "aaa" * 2600 + "b"):
        compiled.match(uri)
    # Backtracking over these would not terminate; CPU time is independent of machine load.
    assert time.process_time() - started < 1
