"""Descriptions of functions and arguments parsed from docstrings."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.definitions import docstrings


def documented(a: int, b: int) -> None:
    """Add two numbers.

    Slowly.

    Args:
        a: the first,
            on two lines
        b (int): the second

    Returns:
        The sum.

    And some more.
    """


def bare() -> None: ...


def test_sections_are_removed_and_arguments_parsed() -> None:
    found = docstrings.read(documented)
    assert found.description == "Add two numbers.\n\nSlowly.\n\nAnd some more."
    assert found.arguments == {"a": "the first, on two lines", "b": "the second"}


def test_missing_docstring_yields_empty_description() -> None:
    assert docstrings.read(bare) == docstrings.Docstring("", {})


GOOGLE = """Summarize a text.

Note:
    Never call it with more than ten words.

Args:
    text: The text.
        More of it.
    pick (Optional[Callable[(int), str]]): How to pick.
    *rest: Others (a: b).
    bare

Warning:
    It is slow.

Raises:
    ValueError: If it is empty.

Examples:
    >>> summarize("a")
    'a'
"""
NUMPY = """Summarize a text.

Parameters
----------
text : str
    The text.

    More of it.
n, m : int, optional
    Counts.

Returns
-------
str
    The summary.

Notes
-----
Notes
are kept: all.

Examples
--------
>>> summarize("a")
"""
SPHINX = """Summarize a text: quickly.

:param text: The text
    and more.
:param int n: A count.
:type text: str
:returns: The summary.
:raises ValueError: If it is empty.

.. note:: Never call it twice.
"""


@pytest.mark.parametrize(
    ("text", "arguments", "kept", "left_out"),
    [
        (
            GOOGLE,
            {"text": "The text. More of it.", "pick": "How to pick.", "rest": "Others (a: b). bare"},
            [
                "Note:\n    Never call it with",
                "Warning:\n    It is slow.",
                'Examples:\n    >>> summarize("a")',
            ],
            ["Args", "ValueError"],
        ),
        (
            NUMPY,
            {"text": "The text. More of it.", "n": "Counts.", "m": "Counts."},
            ["Notes\n-----\nNotes\nare kept: all.", "Examples\n--------\n>>>"],
            ["Parameters", "The summary"],
        ),
        (
            SPHINX,
            {"text": "The text and more.", "n": "A count."},
            ["Summarize a text: quickly.", ".. note:: Never call it twice."],
            [":param", ":type", ":returns", "ValueError"],
        ),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_docstring_style_yields_arguments_and_keeps_notes(
    text: str, arguments: dict[str, str], kept: list[str], left_out: list[str]
) -> None:
    def documented() -> None: ...

    documented.__doc__ = text
    found = docstrings.read(documented)
    assert found.arguments == arguments
    for words in kept:
        assert words in found.description
    for words in left_out:
        assert words not in found.description
