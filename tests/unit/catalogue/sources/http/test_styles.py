"""Parameters are sent as OpenAPI's table and RFC 6570 describe (INT-26)."""

from __future__ import annotations

from typing import Any

import pytest
import uritemplate
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.catalogue.sources.http import styles

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}

# The examples of OpenAPI 3.1.1, section 4.8.12.4: empty, string, array, object. None: not defined there.
EXAMPLES = [
    ("path", "matrix", False,
     ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("path", "matrix", True,
     ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ("path", "label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("path", "label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("path", "simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("path", "simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("header", "simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("header", "simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("query", "form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("query", "form", True,
     "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("cookie", "form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("query", "spaceDelimited", False,
     None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
    ("query", "pipeDelimited", False,
     None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("query", "deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("query", "tabDelimited", False, None, None, "color=blue%09black%09brown", None),
]  # fmt: skip


def sent(place: str, style: str, explode: bool, value: Any) -> str:
    if place == "path":
        return styles.path_text(value, style, explode, "color")
    if place == "header":
        return styles.header_text(value, explode)
    if place == "cookie":
        return "; ".join(styles.cookie_pairs("color", value, explode))
    return "&".join(styles.query_pairs("color", value, style, explode))


@pytest.mark.requirement("INT-26")
@pytest.mark.parametrize(("place", "style", "explode", "empty", "text", "array", "members"), EXAMPLES)
def test_values_are_sent_as_in_the_examples_of_the_specification(
    place: str,
    style: str,
    explode: bool,
    empty: str | None,
    text: str | None,
    array: str | None,
    members: str | None,
) -> None:
    for expected, value in ((empty, ""), (text, "blue"), (array, ARRAY), (members, OBJECT)):
        if expected is not None:
            assert sent(place, style, explode, value) == expected


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
TEMPLATES = {"simple": ("{%s}", "{%s*}"), "label": ("{.%s}", "{.%s*}"), "matrix": ("{;%s}", "{;%s*}")}


@pytest.mark.requirement("INT-26")
@given(
    st.sampled_from(sorted(TEMPLATES)),
    st.booleans(),
    TEXTS | st.lists(TEXTS, min_size=1) | st.dictionaries(TEXTS, TEXTS, min_size=1),
)
def test_paths_equal_the_expansion_of_rfc_6570(style: str, explode: bool, value: Any) -> None:
    # The library sorts the members of objects.
    value = dict(sorted(value.items())) if isinstance(value, dict) else value
    expected = uritemplate.expand(TEMPLATES[style][explode] % "color", color=value)
    assert styles.path_text(value, style, explode, "color") == expected


@given(
    st.booleans(),
    TEXTS | st.lists(TEXTS, min_size=1) | st.dictionaries(TEXTS, TEXTS, min_size=1),
)
def test_queries_equal_the_expansion_of_rfc_6570(explode: bool, value: Any) -> None:
    value = dict(sorted(value.items())) if isinstance(value, dict) else value
    expected = uritemplate.expand("{?color*}" if explode else "{?color}", color=value)
    assert "?" + "&".join(styles.query_pairs("color", value, "form", explode)) == expected


@given(st.sampled_from(sorted(styles.STYLES["query"])), st.booleans(), st.booleans(), TEXTS)
def test_text_never_ends_its_query_pair(style: str, explode: bool, reserved: bool, text: str) -> None:
    for value in (text, [text], {"a": text}):
        for pair in styles.query_pairs("color", value, style, explode, reserved):
            assert "&" not in pair
            assert "#" not in pair
            assert pair.partition("=")[2].count("=") == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (None, ""), ({"a": [1]}, '{"a":[1]}'), ("é", "é")],
)
def test_values_become_text_as_in_json(value: Any, text: str) -> None:
    assert styles.text_of(value) == text


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ({"a": {"b": 1}}, ["f%5Ba%5D%5Bb%5D=1"]),
        ({"a": [1, {"b": 2}]}, ["f%5Ba%5D%5B0%5D=1", "f%5Ba%5D%5B1%5D%5Bb%5D=2"]),
        (["x", "y"], ["f%5B0%5D=x", "f%5B1%5D=y"]),
        ({"a": None}, []),
    ],
)
def test_deep_values_have_a_pair_of_brackets_for_each_level(value: Any, pairs: list[str]) -> None:
    assert styles.query_pairs("f", value, "deepObject", True) == pairs


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (("path", "form", False, "primitive"), "style 'form' does not exist for path"),
        (("query", "deepObject", True, "primitive"), "kind 'primitive'"),
        (("query", "pipeDelimited", False, "primitive"), "kind 'primitive'"),
        (("query", "spaceDelimited", True, "object"), "with explode"),
        (("query", "form", True, ""), ""),
        (("query", "deepObject", True, ""), ""),
    ],
)
def test_undefined_cells_have_a_reason(cell: tuple[Any, ...], reason: str) -> None:
    found = styles.unsupported(*cell)
    assert bool(found) == bool(reason)
    assert reason in found


@pytest.mark.parametrize(
    ("values", "encoding", "body"),
    [
        ({"a": "x y", "b": [1, 2]}, {}, b"a=x%20y&b=1&b=2"),
        ({"a": {"b": 1}}, {}, b"a=%7B%22b%22%3A1%7D"),
        ({"a": {"b": 1}}, {"a": {"style": "deepObject", "explode": True}}, b"a%5Bb%5D=1"),
        ({"a": [1, 2]}, {"a": {"style": "form", "explode": False}}, b"a=1,2"),
        ({"a": None, "b": ""}, {}, b"b="),
    ],
)
def test_form_bodies_follow_the_encoding_of_each_field(values: Any, encoding: Any, body: bytes) -> None:
    assert styles.form_body(values, encoding) == body
