"""The functions that write limits.

Changes raise ValidationError by field. ``actor`` is the acting user, or None for the installation itself.
Callers check the actor's permission.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from mcp_app import conf
from mcp_app.limits import current, exemptions, usage
from mcp_app.limits.rules import BUDGET, EACH, MEASURES, What, Who
from mcp_app.limits.subjects import existing_clients
from mcp_app.models import ApiKey, LimitRule, LimitUsage, audit
from mcp_app.models.audit import stored_user
from mcp_app.streams.blocking import limits as shared
from mcp_app.streams.blocking.announce import announce

FIELDS: Final = (
    "who", "who_value", "exempt", "what", "what_value", "rate", "rate_period", "burst", "concurrent",
    "budget", "budget_unit", "budget_period", "mode", "enabled",
)  # fmt: skip
# Reading all rules on each change of one must stay cheap.
MOST_RULES: Final = 2_000
_NO_AMOUNT: Final = "Set a rate, a number of concurrent calls or a budget."
_EACH: Final = frozenset({Who.USER, Who.KEY, Who.CLIENT, Who.ADDRESS})


def save_rule(
    *, actor: Any, rule: LimitRule | None = None, name: str | None = None, **values: Any
) -> LimitRule:
    """Create a limit, or change ``rule``. Every process applies it within seconds.

    ``exempt`` are names such as ``user:ada``. The name of a stored limit cannot change, because callers and
    metrics know it by this name.
    """
    is_new = rule is None
    with transaction.atomic():
        row = LimitRule(name=name or "")
        if rule is not None:
            row = LimitRule.objects.select_for_update().get(pk=rule.pk)
        elif LimitRule.objects.count() >= MOST_RULES:
            raise ValidationError({"name": [f"There are {MOST_RULES} limits already."]})
        if name not in (None, row.name):
            raise ValidationError({"name": ["The name cannot be changed. Add another limit."]})
        row.who_value = row.who_name
        before = state_of(row)
        for field, value in values.items():
            if field not in FIELDS:
                raise ValidationError({field: ["There is no such field."]})
            setattr(row, field, exemptions.stored(value) if field == exemptions.FIELD else value)
        check(row, is_named=is_new or not values.keys().isdisjoint(("who", "who_value")))
        after = state_of(row)
        row.updated_by = stored_user(actor)
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:
            raise ValidationError({"name": ["A limit with this name exists."]}) from None
        changed = {field: [before[field], after[field]] for field in FIELDS if before[field] != after[field]}
        detail = after if is_new else {"changed": changed}
        action = "limit.created" if is_new else "limit.changed"
        audit(actor=actor, action=action, object_kind="limit", object_key=row.name, detail=detail)
        transaction.on_commit(_apply)
    return row


def delete_rule(*, rule: LimitRule, actor: Any) -> None:
    """Delete a limit and what was used of it."""
    with transaction.atomic():
        detail = state_of(rule)
        audit(actor=actor, action="limit.deleted", object_kind="limit", object_key=rule.name, detail=detail)
        pk, _ = rule.pk, rule.delete()
        transaction.on_commit(lambda: _apply(forget=pk))


def reset_rule(*, rule: LimitRule, actor: Any, subject: str = "") -> None:
    """Set what was used of a limit to zero, for one subject or for all.

    Without ``subject``, counts of subjects that no process has stored expire with their period.
    """
    usage.store()
    with transaction.atomic():
        used = LimitUsage.objects.filter(rule=rule, **({"subject": subject} if subject else {}))
        subjects = {subject} if subject else set(used.values_list("subject", flat=True))
        starts = set(used.filter(measure=BUDGET).values_list("subject", "period_start"))
        used.delete()
        detail = {"subject": subject} if subject else {}
        audit(actor=actor, action="limit.reset", object_kind="limit", object_key=rule.name, detail=detail)
        transaction.on_commit(lambda: _forget_shared(rule, subjects, starts))
        transaction.on_commit(lambda: _apply(forget=rule.pk))


def follow_tool(before: str, name: str) -> None:
    """Keep the limits of a tool after the tool was renamed."""
    if LimitRule.objects.filter(what=What.TOOL, what_value=before).update(what_value=name):
        transaction.on_commit(_apply)


def check(row: LimitRule, *, is_named: bool = True) -> None:
    """Raise ValidationError if a rule is not valid. Values that its kind does not use are emptied.

    With ``is_named``, the user or group is looked up by its name. Otherwise the stored one stays.
    """
    if row.who == Who.INSTALLATION:
        row.who_value = ""
    if row.what == What.EVERYTHING:
        row.what_value = ""
    errors: dict[str, list[str]] = {}
    if is_named and (problem := _objection_to_who(row)):
        errors["who_value"] = [problem]
    if row.what != What.EVERYTHING and not row.what_value:
        errors["what_value"] = ["Enter the name of the tool, tag or toolset."]
    if not any(getattr(row, measure) for measure in MEASURES):
        errors["rate"] = [_NO_AMOUNT]
    if row.burst and not row.rate:
        errors["burst"] = ["A burst needs a rate."]
    try:
        row.full_clean(exclude=("updated_by", *errors))
    except ValidationError as error:
        errors |= error.message_dict
    if errors:
        raise ValidationError(errors)


def state_of(row: LimitRule) -> dict[str, Any]:
    """Return the fields of a limit as they are audited."""
    return {field: getattr(row, field) for field in FIELDS} | {exemptions.FIELD: exemptions.names(row.exempt)}


def _objection_to_who(row: LimitRule) -> str:
    who, value = row.who, str(row.who_value or "").strip()
    row.who_value, row.user, row.group = value, None, None
    if who == Who.INSTALLATION:
        return ""
    if not value:
        return "Enter a name or number, or * for each one." if who in _EACH else "Enter the name of a group."
    if value == EACH:
        return "" if who in _EACH else "Enter the name of a group."
    if who in (Who.GROUP, Who.MEMBER):
        row.group = Group.objects.filter(name=value).first()
        return "" if row.group else f"There is no group {value!r}."
    if who == Who.USER:
        people: Any = get_user_model()._default_manager
        row.user = people.filter(**{people.model.USERNAME_FIELD: value}).first()
        return "" if row.user else f"There is no user {value!r}."
    if who in (Who.KEY, Who.CLIENT) and not (value.isascii() and value.isdecimal() and len(value) <= 18):
        return "Choose the API key or client from the list, or enter its number."
    if who == Who.KEY and not ApiKey.objects.filter(pk=int(value)).exists():
        return f"There is no API key {value}."
    if who == Who.CLIENT and not existing_clients({value}):
        return f"There is no OAuth client {value}."
    return _objection_to_network(value) if who == Who.ADDRESS else ""


def _objection_to_network(value: str) -> str:
    try:
        ip_network(value, strict=False)
    except ValueError:
        return "Enter an address such as 192.0.2.7, or a network such as 192.0.2.0/24."
    return ""


def _apply(forget: int | None = None) -> None:
    """Apply the stored rules in this process, and notify all others."""
    if forget is not None:
        usage.forget(forget)
    current.load()
    announce(current.TOPIC, {} if forget is None else {"forget": forget})


def _forget_shared(rule: LimitRule, subjects: set[str], starts: set[Any]) -> None:
    """Remove the counts in Redis. While it is unavailable they stay, and expire."""
    if not conf.get().redis_url:
        return
    keys = [f"{rule.pk}/rate/{subject}" for subject in subjects]
    keys += [f"{rule.pk}/{BUDGET}/{subject}/{start:%Y%m%d%H}" for subject, start in starts]
    places = [f"limit/{rule.pk}/concurrent/{subject}" for subject in subjects]
    try:
        shared.forget(keys, places)
    except shared.Unavailable:
        return
