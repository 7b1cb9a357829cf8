"""The effects that the annotations of tools declare."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.effects import Effect, effect_of


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        ({"readOnlyHint": True, "destructiveHint": True}, Effect.READS),
        ({"destructiveHint": True}, Effect.DESTROYS),
        ({"readOnlyHint": False, "destructiveHint": False}, Effect.CHANGES),
        ({"readOnlyHint": "yes", "destructiveHint": 0}, Effect.UNKNOWN),
        ({}, Effect.UNKNOWN),
        (None, Effect.UNKNOWN),
        ([], Effect.UNKNOWN),
    ],
)
def test_effect_follows_the_annotations(annotations: Any, effect: Effect) -> None:
    assert effect_of(annotations) is effect


def test_tool_that_declares_nothing_counts_as_destructive() -> None:
    assert [effect.name for effect in Effect if effect.may_destroy] == ["DESTROYS", "UNKNOWN"]
