"""Checks of toolsets that administrators store. Errors name the field and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.auth.membership import group_of
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.definitions.tags import check_tags
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.snapshots.toolsets import LISTS
from mcp_app.catalogue.sources.checking import Errors, UnfitError, check_length, collect
from mcp_app.catalogue.sources.lookup import choices, source_of
from mcp_app.database import clock
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool, Toolset

MAX_MEMBERS: Final = 2_000
MAX_RULES: Final = 50
# OAuth tokens for a deleted toolset may still exist for this time.
SLUG_DAYS: Final = 90
KINDS: Final[Mapping[str, type[Any]]] = {
    kind.KIND: kind for kind in (Tool, Prompt, Resource, ResourceTemplate)
}
RULE: Final = ("kind", "tag", "prefix", "source")
_TEXTS: Final = {"title": 200, "description": 100_000, "keywords": 500}

Members = list[Mapping[str, Any]]


def check(row: Toolset, before: Mapping[str, Any] | None) -> None:
    """Raise ValidationError if a toolset may not be saved. ``before`` is its stored state, or None.

    Members that were stored before may be missing from the catalogue.
    """
    errors: Errors = {}
    try:
        row.full_clean()
    except ValidationError as error:
        errors = {name: list(messages) for name, messages in error.message_dict.items()}
    old = before or {}
    collect(errors, "instructions", lambda: check_length(row.instructions))
    collect(errors, "rules", lambda: _check_rules(row.rules))
    collect(errors, "members", lambda: _check_members(row.members, old.get("members", [])))
    collect(errors, "groups", lambda: _check_groups(row, old.get("permissions", [])))
    collect(errors, "is_default", lambda: _check_default(row))
    if before is None:
        collect(errors, "slug", lambda: _check_slug(row.slug))
    if errors:
        raise ValidationError(dict[str, Any](errors))


def sound(row: Toolset) -> Toolset:
    """Remove the damaged parts of a stored toolset from the row in memory, so that it can be repaired."""
    row.members = [each for each in _listed(row.members) if _is_member(each)]
    row.rules = [each for each in _listed(row.rules) if isinstance(each, dict)]
    row.permissions = [each for each in _listed(row.permissions) if isinstance(each, str)]
    return row


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_member(each: Any) -> bool:
    return isinstance(each, dict) and each.get("kind") in LISTS and isinstance(each.get("key"), str)


def _check_rules(rules: Any) -> None:
    if not isinstance(rules, list) or len(rules) > MAX_RULES:
        raise UnfitError(f"Rules must be a list of at most {MAX_RULES} objects.")
    known = dict(choices())
    for rule in rules:
        if not isinstance(rule, dict) or not rule or rule.keys() - set(RULE):
            raise UnfitError(f"A rule must be an object with at least one of {', '.join(RULE)}.")
        if not all(isinstance(value, str) and 0 < len(value) <= 200 for value in rule.values()):
            raise UnfitError("The parts of a rule must be texts of 1 to 200 characters.")
        if "kind" in rule and rule["kind"] not in LISTS:
            raise UnfitError(f"The kind of a rule must be one of {', '.join(LISTS)}.")
        if (stored := rule.get("source", "")) and stored not in known:
            raise UnfitError(f"The source of a rule must be one of {', '.join(known)}.")
        if "tag" in rule:
            check_tags([rule["tag"]])


def _check_members(members: Any, before: Members) -> None:
    if not isinstance(members, list) or len(members) > MAX_MEMBERS:
        raise UnfitError(f"Members must be a list of at most {MAX_MEMBERS} objects.")
    for member in members:
        _check_shape(member)
    named = {(member["kind"], member["key"]) for member in members}
    if len(named) < len(members):
        raise UnfitError("A member is repeated.")
    known = {(member["kind"], member["key"]) for member in before}
    for kind, model in KINDS.items():
        wanted = {key for each, key in named - known if each == kind}
        found = model._default_manager.filter(**{f"{model.KEY}__in": wanted}).values_list(
            model.KEY, flat=True
        )
        if unknown := sorted(wanted - set(found)):
            raise UnfitError(f"There is no {kind} {unknown[0]!r}.")
    for member in members:
        if member.get("fixed_arguments") and member not in before:
            _check_fixed(member["key"], member["fixed_arguments"])


def _check_shape(member: Any) -> None:
    if not _is_member(member):
        raise UnfitError(f"A member must be an object with kind ({', '.join(LISTS)}) and key.")
    if unknown := sorted(member.keys() - {"kind", "key", "excluded", "fixed_arguments", *_TEXTS}):
        names = ", ".join((*_TEXTS, "fixed_arguments"))
        raise UnfitError(f"{member['kind']} {member['key']}: {unknown[0]!r} is not known. Use {names}.")
    if not isinstance(excluded := member.get("excluded", False), bool) or (excluded and len(member) > 3):
        raise UnfitError(f"The excluded entry {member['key']} must have kind, key and excluded alone.")
    for name, longest in _TEXTS.items():
        text = member.get(name, "")
        if not isinstance(text, str) or len(text) > longest:
            raise UnfitError(f"The {name} of {member['key']} must be a text of at most {longest} characters.")
    fixed = member.get("fixed_arguments", {})
    if not isinstance(fixed, dict) or (fixed and member["kind"] != Tool.KIND):
        raise UnfitError(f"The fixed arguments of {member['key']} must be an object, and need a tool.")
    check_storable(member)


def _check_fixed(name: str, fixed: Mapping[str, Any]) -> None:
    """Raise UnfitError for arguments that the tool does not have, or with values that it refuses."""
    tool = Tool.objects.select_related("preset_of").filter(name=name).first()
    schema = source_of(tool).arguments_of(tool) if tool is not None else None
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties") or {}
    if unknown := sorted(fixed.keys() - properties.keys()):
        raise UnfitError(f"{name} has no argument {unknown[0]!r}. It has: {', '.join(properties) or 'none'}.")
    shared = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    try:
        validator = validation.compile_schema({**shared, "type": "object", "properties": properties})
    except validation.SchemaError:
        return  # A tool with an invalid schema is not offered.
    if not validator.is_valid(fixed):
        raise UnfitError(f"{name}: {validator.explain(dict(fixed))}")


def _check_groups(row: Toolset, before: list[str]) -> None:
    if not isinstance(row.permissions, list):
        raise UnfitError("Groups must be a list.")
    if any(group_of(name) is None for name in row.permissions if name not in before):
        raise UnfitError("There is no such group.")
    if row.audience == Toolset.Audience.GROUPS and not row.permissions:
        raise UnfitError("Choose at least one group, or choose other users under “Who can use it”.")


def _check_default(row: Toolset) -> None:
    if not row.is_default:
        return
    if not row.enabled:
        raise UnfitError("A disabled toolset cannot be served at /mcp. Enable it, or do not serve it there.")
    if row.audience != Toolset.Audience.EVERYONE:
        raise UnfitError("Only a toolset that everyone can use can be served at /mcp.")
    other = Toolset.objects.filter(is_default=True).exclude(pk=row.pk).first()
    if other is not None:
        raise UnfitError(f"The toolset {other.slug} is served at /mcp. Change it first.")


def _check_slug(slug: str) -> None:
    since = clock.utcnow() - timedelta(days=SLUG_DAYS)
    deleted = revisions.history_of(Toolset.KIND, slug).filter(action="deleted", at__gte=since).first()
    if deleted is not None:
        raise UnfitError(
            f"A toolset with this slug was deleted on {deleted.at:%d %B %Y}. For {SLUG_DAYS} days only that "
            "toolset can be restored, because logins for it may still be valid."
        )
