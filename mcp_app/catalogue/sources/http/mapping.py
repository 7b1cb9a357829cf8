"""Mappings of answers: JMESPath with a budget, so that no expression runs for long.

JMESPath cannot loop or read anything but the answer, but an expression can multiply lists. The interpreter
therefore counts its work and stops.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import orjson
from jmespath import exceptions, parser, visitor

MAX_EXPRESSION: Final = 2_000
MAX_INPUT_BYTES: Final = 2 * 1024 * 1024
# Counts the visits of nodes, every 64 bytes of JSON that a visit returns for the first time, and every 16
# members of a list or object that was returned before, because functions walk through it again.
BUDGET: Final = 200_000
_SHIFT: Final = 6
_MEMBER: Final = 4
_TOO_LONG: Final = f"Write at most {MAX_EXPRESSION} characters."


class MappingError(ValueError):
    """An expression that cannot be used, or that failed. The text names the position if it is known."""


class _Interpreter(visitor.TreeInterpreter):  # type: ignore[misc]
    """An interpreter that stops when its budget is used up."""

    def __init__(self) -> None:
        super().__init__()
        self._left = BUDGET
        # The objects are kept beside their weights, because the id of a deleted object is used again.
        self._weights: dict[int, tuple[Any, int]] = {}

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        found = super().visit(node, *args, **kwargs)
        self._left -= 1 + (self._new_weight(found) >> _SHIFT)
        if self._left < 0:
            raise MappingError("The mapping takes too long for this answer: make it simpler.")
        return found

    def _new_weight(self, value: Any) -> int:
        """Return the size of a value in bytes of JSON, or less for a value that was counted before.

        A list that contains one value twice counts it twice, because it is written twice.
        """
        if isinstance(value, str):
            return len(value)
        if not isinstance(value, (list, dict)):
            return 0
        if id(value) in self._weights:
            return len(value) * _MEMBER
        members = value.values() if isinstance(value, dict) else value
        weight = 2 + sum(map(self._weight, members))
        self._weights[id(value)] = (value, weight)
        return weight

    def _weight(self, value: Any) -> int:
        if not isinstance(value, (list, dict)):
            return len(value) if isinstance(value, str) else 8
        known = self._weights.get(id(value))
        if known is None:
            # Values that the interpreter made are known, so this is a part of the answer.
            known = self._weights[id(value)] = (value, len(orjson.dumps(value)))
        return known[1]


@lru_cache(maxsize=512)
def compiled(expression: str) -> Any:
    """Return the parsed expression, or None for "". Raises MappingError with the position."""
    if not expression.strip():
        return None
    if len(expression) > MAX_EXPRESSION:
        raise MappingError(_TOO_LONG)
    try:
        return parser.Parser().parse(expression).parsed
    except exceptions.ParseError as error:
        position = getattr(error, "lex_position", None)
        where = "" if position is None else f" at position {position + 1}"
        raise MappingError(f"Not a JMESPath expression{where}.") from None
    except (exceptions.JMESPathError, RecursionError):
        raise MappingError("Not a JMESPath expression.") from None


def mapped(expression: str, value: Any) -> Any:
    """Return the value of an expression, or ``value`` itself for "". Raises MappingError."""
    tree = compiled(expression)
    if tree is None:
        return value
    try:
        return _Interpreter().visit(tree, value)
    except MappingError:
        raise
    except exceptions.JMESPathError as error:
        raise MappingError(f"The mapping failed: {_first_line(error)}") from None
    except (RecursionError, TypeError, ValueError, ArithmeticError):
        raise MappingError("The mapping failed for this answer.") from None


def _first_line(error: Exception) -> str:
    # The message of a type error contains the value.
    if isinstance(error, exceptions.JMESPathTypeError):
        return f"the function {error.function_name}() does not take a value of the type {error.actual_type}."
    return str(error).partition("\n")[0][:200]
