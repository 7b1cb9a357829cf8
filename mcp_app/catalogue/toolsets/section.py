"""The toolsets in catalogue files. Groups are named, because their numbers differ between installations."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.toolsets import services
from mcp_app.catalogue.toolsets.groups import FIELD, memberships_of, names_of
from mcp_app.models import Toolset

_TYPES: Final[dict[str, tuple[type, str]]] = {
    "title": (str, "text"),
    "instructions": (str, "text"),
    "enabled": (bool, "true or false"),
    "is_default": (bool, "true or false"),
    "searches": (bool, "true or false"),
    "audience": (str, f"one of {', '.join(Toolset.Audience.values)}"),
    FIELD: (list, "a list of names"),
    "members": (list, "a list"),
    "rules": (list, "a list"),
}


class ToolsetSection:
    """The section of catalogue files with toolsets."""

    name, kind, key, model = "toolsets", Toolset.KIND, Toolset.KEY, "toolset"

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the values of the stored toolsets by slug."""
        return {row.slug: values_of(row) for row in Toolset.objects.all()}

    def read(self, key: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return all values of a toolset in a file. Raises ValidationError for values of another type."""
        return values_of(Toolset(slug=key)) | read_values(given)

    def write(self, key: str, values: dict[str, Any] | None, actor: Any) -> None:
        """Store or delete a toolset through the services."""
        row = Toolset.objects.filter(slug=key).first()
        if values is None:
            if row is not None:
                services.delete_toolset(toolset=row, actor=actor)
            return
        given = stored_values({**values, "slug": key})
        services.save_toolset(actor=actor, toolset=row, **given)


def values_of(row: Toolset) -> dict[str, Any]:
    """Return the values of a toolset without its slug, as in a file."""
    state = services.state_of(row)
    return {name: names_of(row.permissions) if name == FIELD else state[name] for name in _TYPES}


def stored_values(given: dict[str, Any]) -> dict[str, Any]:
    """Convert values of a file to values for the services. Raises ValidationError for an unknown group."""
    values = dict(given)
    if FIELD in values:
        values["permissions"] = memberships_of(values.pop(FIELD))
    return values


def read_values(given: dict[str, Any]) -> dict[str, Any]:
    """Return given values of the right types. Raises ValidationError by field for others."""
    errors: dict[str, list[str]] = {}
    for name, value in given.items():
        kind, words = _TYPES.get(name, (None, ""))
        if kind is None:
            errors[name] = [f"There is no such field; there are: {', '.join(_TYPES)}."]
        elif not isinstance(value, kind) or (name == FIELD and not _are_texts(value)):
            errors[name] = [f"Must be {words}."]
        else:
            try:
                check_storable(value)
            except ValidationError as error:
                errors[name] = error.messages
    if errors:
        raise ValidationError(errors)
    return given


def _are_texts(values: Any) -> bool:
    return all(isinstance(each, str) for each in values)


TOOLSETS: Final = ToolsetSection()
