"""What a docstring tells about a function and its arguments."""

from __future__ import annotations

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


def test_sections_leave_the_description_and_arguments_are_read() -> None:
    found = docstrings.read(documented)
    assert found.description == "Add two numbers.\n\nSlowly.\n\nAnd some more."
    assert found.arguments == {"a": "the first, on two lines", "b": "the second"}


def test_a_function_without_docstring_has_no_description() -> None:
    assert docstrings.read(bare) == docstrings.Docstring("", {})
