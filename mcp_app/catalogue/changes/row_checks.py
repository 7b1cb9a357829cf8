"""Checks of rows that administrators store. Errors name the field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError

from mcp_app import conf
from mcp_app.auth.membership import group_of
from mcp_app.catalogue.definitions.tags import check_tags
from mcp_app.catalogue.definitions.tool_limits import (
    COLUMNS,
    MAX_APPROVAL_MINUTES,
    MAX_PRIORITY,
    MAX_RESULT,
    MAX_RETRIES,
    MIN_RESULT_BYTES,
    MIN_RESULT_TOKENS,
    POSITIVE,
    QUEUE_NAME,
    SWITCHES,
)
from mcp_app.catalogue.sources.checking import Errors, UnfitError, check_length, collect
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.models import Tool
from mcp_app.models.catalogue import Row
from mcp_app.protocol.messages.icons import check_icons
from mcp_app.protocol.messages.meta import check_own_keys

_PERMISSION: Final = re.compile(r"\w+\.\w+")


def check(row: Row) -> None:
    """Raise ValidationError if a row may not be saved. The row's source checks the fields of that source."""
    errors = _model_errors(row)
    collect(errors, "icons", lambda: check_icons(row.icons))
    collect(errors, "meta", lambda: _check_meta(row.meta))
    collect(errors, "tags", lambda: check_tags(row.tags))
    collect(errors, "permission", lambda: _check_permission(row.permission))
    collect(errors, "description", lambda: check_length(row.description))
    if isinstance(row, Tool):
        for limit, column in COLUMNS.items():
            collect(errors, column, partial(_LIMIT_CHECKS[limit], row))
    source_of(row).check(row, errors)
    if errors:
        raise ValidationError(errors)


def _model_errors(row: Any) -> Errors:
    try:
        row.full_clean()
    except ValidationError as error:
        return {name: list(messages) for name, messages in error.message_dict.items()}
    return {}


def _check_meta(meta: Any) -> None:
    if not isinstance(meta, dict):
        raise UnfitError("This must be a JSON object.")
    check_own_keys(meta)


def check_permission(permission: str) -> None:
    """Raise ValidationError for text that is not the name of a permission."""
    try:
        _check_permission(permission)
    except UnfitError as error:
        raise ValidationError({"permission": [str(error)]}) from error


def _check_permission(permission: str) -> None:
    if permission and not _PERMISSION.fullmatch(permission):
        raise UnfitError("A permission looks like app_label.codename.")


def permission_exists(permission: str) -> bool:
    """Return True if users can have the permission. Membership permissions are created on demand."""
    if group_of(permission) is not None:
        return True
    label, _, codename = permission.partition(".")
    return Permission.objects.filter(content_type__app_label=label, codename=codename).exists()


def _check_timeout(row: Tool) -> None:
    limit, seconds = conf.get().tool_timeout_max_seconds, row.timeout_seconds
    if seconds is not None and not 0 < seconds <= limit:
        raise UnfitError(f"This must be more than 0 and at most {limit:g} seconds.")


def _is_positive(column: str) -> Callable[[Tool], None]:
    def check(row: Tool) -> None:
        number = getattr(row, column)
        if number is not None and number < 1:
            raise UnfitError("This must be at least 1; leave it empty for no limit.")

    return check


def _is_within(column: str, least: int, most: int) -> Callable[[Tool], None]:
    def check(row: Tool) -> None:
        number = getattr(row, column)
        if number is not None and not least <= number <= most:
            raise UnfitError(f"This must be {least} to {most}.")

    return check


def _is_as_defined(switch: str) -> Callable[[Tool], None]:
    """Return a check that refuses to switch off a limit that the source switches on."""

    def check(row: Tool) -> None:
        source = source_of(row)
        if source.in_force(row).get(switch) and not getattr(row, switch):
            raise UnfitError(f"This is switched on in {source.origin} and cannot be switched off here.")

    return check


def _check_retries(row: Tool) -> None:
    if not row.retries:
        return
    if row.retries > MAX_RETRIES:
        raise UnfitError(f"This must be at most {MAX_RETRIES}.")
    annotations = (source_of(row).base_of(row) or row).annotations
    if not (isinstance(annotations, dict) and annotations.get("idempotentHint") is True):
        raise UnfitError(
            "Only a tool that its source declares idempotent may be retried: "
            "a lost attempt may have done its work."
        )


def _check_queue(row: Tool) -> None:
    if row.queue and not QUEUE_NAME.fullmatch(row.queue):
        raise UnfitError("A queue is named by letters, digits and _.- only.")


# Optional integers and switches are checked by their type. Any other limit needs its own check here.
_LIMIT_CHECKS: Final[dict[str, Callable[[Tool], None]]] = {
    "timeout": _check_timeout,
    **{limit: _is_positive(COLUMNS[limit]) for limit in POSITIVE},
    **{limit: _is_as_defined(limit) for limit in SWITCHES},
    "retries": _check_retries,
    "queue": _check_queue,
    "priority": _is_within("priority", 0, MAX_PRIORITY),
    "approval_minutes": _is_within("approval_minutes", 1, MAX_APPROVAL_MINUTES),
    "max_result_tokens": _is_within("max_result_tokens", MIN_RESULT_TOKENS, MAX_RESULT),
    "max_result_bytes": _is_within("max_result_bytes", MIN_RESULT_BYTES, MAX_RESULT),
}
