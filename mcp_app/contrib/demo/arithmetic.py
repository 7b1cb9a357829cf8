"""Evaluation of arithmetic from untrusted text: a parser without ``eval``, with bounds on every size.

Precedence and meaning follow Python: ``**`` binds tighter than a sign on its left and groups to the right.
``/`` returns a float, ``//`` and ``%`` round towards minus infinity.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator

Number = int | float

MAX_CHARACTERS = 1_000
MAX_DEPTH = 64
MAX_BITS = 4_096

_TOKEN = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(\*\*|//|[-+*/%()])", re.ASCII)
_BINDING = {"+": 10, "-": 10, "*": 20, "/": 20, "//": 20, "%": 20, "**": 40}
_SIGN_BINDING = 30
_END = ""


class ArithmeticFault(ValueError):
    """An expression that has no value. The message gives the reason and may be shown to the user."""


def evaluate(expression: str) -> Number:
    """Return the value of ``expression``. Raises ArithmeticFault, quickly, for invalid or excessive input."""
    if len(expression) > MAX_CHARACTERS:
        raise ArithmeticFault(f"The expression is longer than {MAX_CHARACTERS} characters.")
    return _Parser(list(_tokens(expression))).run()


def _tokens(expression: str) -> Iterator[str]:
    position = 0
    while position < len(expression):
        if expression[position] in " \t\r\n":
            position += 1
            continue
        found = _TOKEN.match(expression, position)
        if found is None:
            raise ArithmeticFault(
                f"{expression[position]!r} at position {position + 1} is not understood. "
                "Use numbers, + - * / // % ** and parentheses."
            )
        yield found.group()
        position = found.end()
    yield _END


class _Parser:
    """A precedence-climbing parser that computes while it parses. ``_depth`` bounds the recursion."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def run(self) -> Number:
        value = self._expression(0)
        if self._peek() != _END:
            raise ArithmeticFault(f"{self._peek()!r} stands where an operator or the end was expected.")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next]

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1]

    def _expression(self, binding: int) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ArithmeticFault(f"The expression is nested more than {MAX_DEPTH} levels deep.")
        left = self._operand()
        while _BINDING.get(self._peek(), -1) >= max(binding, 1):
            symbol = self._take()
            # Only "**" groups to the right, so its right operand may itself contain "**".
            left = _apply(symbol, left, self._expression(_BINDING[symbol] + (symbol != "**")))
        self._depth -= 1
        return left

    def _operand(self) -> Number:
        read = self._take()
        if read in ("+", "-"):
            value = self._expression(_SIGN_BINDING)
            return -value if read == "-" else value
        if read == "(":
            value = self._expression(0)
            if self._take() != ")":
                raise ArithmeticFault("A closing parenthesis is missing.")
            return value
        if read[:1].isdigit() or read[:1] == ".":
            return _number(read)
        raise ArithmeticFault(
            "The expression ends where a number was expected." if read == _END
            else f"{read!r} stands where a number was expected."
        )  # fmt: skip


def _number(token: str) -> Number:
    return _bounded(int(token) if token.isdigit() else float(token))


def _apply(symbol: str, left: Number, right: Number) -> Number:
    try:
        return _bounded(_OPERATIONS[symbol](left, right))
    except ZeroDivisionError:
        raise ArithmeticFault("Division by zero has no value.") from None
    except OverflowError:
        raise _too_large() from None


def _power(base: Number, exponent: Number) -> Number:
    # The size is checked before the power is computed, because 9**9**9 would fill the machine's memory.
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and exponent * (int(base).bit_length() - 1) > MAX_BITS:
        raise _too_large()
    value: Number | complex = base**exponent
    if isinstance(value, complex):
        raise ArithmeticFault("A fractional power of a negative number is not a real number.")
    return value


_OPERATIONS: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
}


def _bounded(value: Number) -> Number:
    if value.bit_length() > MAX_BITS if isinstance(value, int) else not math.isfinite(value):
        raise _too_large()
    return value


def _too_large() -> ArithmeticFault:
    return ArithmeticFault(
        f"A number in the calculation is too large (more than {MAX_BITS} bits, or infinite)."
    )
