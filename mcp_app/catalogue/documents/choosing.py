"""Choice of operations by pattern and tag."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from mcp_app.catalogue.sources.http.openapi.survey import SurveyedOperation


def chosen(
    operations: Iterable[SurveyedOperation],
    *,
    patterns: Collection[str] = (),
    tags: Collection[str] = (),
    every: bool = False,
) -> list[SurveyedOperation]:
    """Return the operations that fit a pattern or a tag, or all current ones with ``every``.

    A pattern is ``GET /orders/*``, a path, or an operation id; ``*`` stands for any text. Deprecated
    operations are chosen by pattern only.
    """
    return [
        each
        for each in operations
        if any(_fits(each, pattern) for pattern in patterns)
        or (not each.deprecated and not each.disabled and (every or bool(set(tags) & set(each.tags))))
    ]


def _fits(operation: SurveyedOperation, pattern: str) -> bool:
    # Brackets are common in paths of APIs, so they are no sets of characters here.
    plain = pattern.replace("[", "[[]")
    texts = (operation.key, operation.path, operation.operation_id)
    return any(text and fnmatchcase(text, plain) for text in texts)
