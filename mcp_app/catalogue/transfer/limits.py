"""The limits in catalogue files: those that name no user, API key or OAuth client of one installation."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import Q

from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.limits import exemptions, services
from mcp_app.limits.rules import EACH, Who
from mcp_app.models import LimitRule

_NAMED: Final = (Who.USER, Who.KEY, Who.CLIENT)
_TEXTS: Final = (
    "who", "who_value", "what", "what_value", "rate_period", "budget_unit", "budget_period", "mode",
)  # fmt: skip
_NUMBERS: Final = ("rate", "burst", "concurrent", "budget")
_STAYS: Final = "A file has no limits of one user, API key or OAuth client: take it out."
_TAKEN: Final = "This installation has its own limit with this name: rename it in the file, or take it out."


class LimitSection:
    """The section of catalogue files with limits."""

    name, kind, key, model = "limits", "limit", "name", "limitrule"

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the values of the stored limits by name, without those that stay in an installation."""
        rows = LimitRule.objects.exclude(Q(who__in=_NAMED) & ~Q(who_value=EACH)).select_related("group")
        found = {row.name: (row, _values(row)) for row in rows}
        return {name: values for name, (row, values) in found.items() if _travels(row, values)}

    def read(self, key: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return all values of a limit in a file. Raises ValidationError for values of another type."""
        errors = {name: [problem] for name, value in given.items() if (problem := _problem(name, value))}
        if errors:
            raise ValidationError(errors)
        values = services.state_of(LimitRule(name=key)) | given
        if _stays(values):
            raise ValidationError({"who": [_STAYS]})
        present = LimitRule.objects.filter(name=key).select_related("user", "group").first()
        if present is not None and not _travels(present, _values(present)):
            raise ValidationError({"name": [_TAKEN]})
        row = LimitRule(name=key, pk=present.pk if present is not None else None)
        row._state.adding = present is None
        for name, value in values.items():
            setattr(row, name, exemptions.stored(value) if name == exemptions.FIELD else value)
        services.check(row)
        return services.state_of(row)

    def write(self, key: str, values: dict[str, Any] | None, actor: Any) -> None:
        """Store or delete a limit through the services."""
        row = LimitRule.objects.filter(name=key).first()
        if values is not None:
            services.save_rule(actor=actor, rule=row, name=key, **values)
        elif row is not None:
            services.delete_rule(rule=row, actor=actor)


def _values(row: LimitRule) -> dict[str, Any]:
    return services.state_of(row) | {"who_value": row.who_name}


def _travels(row: LimitRule, values: dict[str, Any]) -> bool:
    """Return True if a stored limit is part of files. Imports leave all others as they are."""
    return not (row.is_orphaned or _stays(values))


def _stays(values: dict[str, Any]) -> bool:
    """Return True if a limit names a user, an API key or an OAuth client."""
    if values["who"] in _NAMED and values["who_value"] != EACH:
        return True
    return any(not each.startswith("group:") for each in values[exemptions.FIELD])


def _problem(name: str, value: Any) -> str:
    if name in _TEXTS:
        fits, words = isinstance(value, str), "text"
    elif name in _NUMBERS:
        fits, words = value is None or type(value) is int, "a number or null"
    elif name == exemptions.FIELD:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        words = "a list of texts"
    elif name == "enabled":
        fits, words = isinstance(value, bool), "true or false"
    else:
        return f"There is no such field; there are: {', '.join(services.FIELDS)}."
    if not fits:
        return f"Must be {words}."
    try:
        check_storable(value)
    except ValidationError as error:
        return " ".join(error.messages)
    return ""


LIMITS: Final = LimitSection()
