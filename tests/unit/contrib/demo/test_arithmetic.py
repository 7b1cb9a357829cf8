"""Calculator arithmetic: Python's values, and a quick, clear error for everything else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.contrib.demo.arithmetic import MAX_BITS, ArithmeticFault, evaluate


@pytest.mark.parametrize(
    "expression",
    [
        "1",
        " 2 +\t3\n",
        "2+3*4",
        "(2+3)*4",
        "8-3-2",
        "8/2/2",
        "2**3**2",
        "-2**2",
        "(-2)**2",
        "2**-1",
        "2*-3",
        "1--1",
        "+-+1",
        "-2**-2",
        "2**-3**2",
        "7//2",
        "-7//2",
        "7%3",
        "-7%3",
        "7%-3",
        "7.5//2",
        "7.5%2",
        "0.1+0.2",
        ".5",
        "5.",
        "1e3",
        "1.5E-3",
        "2**0.5",
        "0**0",
        "10**-400",
        "1+" * 400 + "1",
        "((((((((((1))))))))))",
        "2**4000",
        "1/3",
    ],
)
def test_expression_has_value_of_python(expression: str) -> None:
    expected = eval(expression.strip())
    value = evaluate(expression)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("9**9**9", "too large"),
        ("9**9**9**9**9", "too large"),
        ("2**4096*2", "too large"),
        ("10**400*10**400*10**400*10**400", "too large"),
        ("9" * 999, None),
        ("1e308*10", "too large"),
        ("1e999", "too large"),
        ("1e308+1e308", "too large"),
        ("10**400*1.5", "too large"),
        ("10**400/1", "too large"),
        ("10.0**400", "too large"),
        ("1/0", "Division by zero"),
        ("1//0", "Division by zero"),
        ("1%0", "Division by zero"),
        ("1.0/0.0", "Division by zero"),
        ("0**-1", "Division by zero"),
        ("(-8)**0.5", "not a real number"),
        ("", "ends where"),
        ("1+", "ends where"),
        ("()", r"'\)' stands"),
        ("(1", "parenthesis is missing"),
        ("1)", r"'\)' stands"),
        ("1 2", "'2' stands"),
        ("(1)(2)", r"'\(' stands"),
        ("2(3)", r"'\(' stands"),
        ("1.5.2", "'.2' stands"),
        ("3 +* 4", r"'\*' stands"),
        ("2^3", r"'\^' at position 2"),
        ("x", "'x' at position 1"),
        ("0x10", "'x' at position 2"),
        ("1_000", "'_' at position 2"),
        ("1j", "'j' at position 2"),
        ("٣+1", "position 1"),
        ("__import__('os').system('id')", "'_' at position 1"),
        ("(lambda: 1)()", "'l' at position 2"),
        ("1 if 1 else 2", "'i' at position 3"),
        ("1\x00", "position 2"),
        ("(" * 80 + "1" + ")" * 80, "nested"),
        ("-" * 999 + "1", "nested"),
        ("2**" * 333 + "1", "nested"),
        ("1" * 1_001, "longer than 1000"),
    ],
)
def test_invalid_or_huge_expression_fails_quickly_with_reason(expression: str, said: str | None) -> None:
    started = time.monotonic()
    if said is None:
        assert evaluate(expression) == int(expression)
    else:
        with pytest.raises(ArithmeticFault, match=said):
            evaluate(expression)
    assert time.monotonic() - started < 5


@given(st.text(alphabet="0123456789.eE+-*/%() ", max_size=60))
def test_arithmetic_text_has_bounded_value_or_fault(expression: str) -> None:
    try:
        value = evaluate(expression)
    except ArithmeticFault:
        return
    assert len(str(value)) < MAX_BITS


@given(st.text(max_size=40))
def test_arbitrary_text_has_value_or_fault(expression: str) -> None:
    try:
        value = evaluate(expression)
    except ArithmeticFault:
        return
    assert isinstance(value, (int, float))


@given(st.integers(-(10**30), 10**30), st.sampled_from(["+", "-", "*", "//", "%"]), st.integers(1, 10**30))
def test_integer_arithmetic_is_exact(left: int, operator: str, right: int) -> None:
    assert evaluate(f"{left}{operator}{right}") == eval(f"({left}){operator}{right}")
