"""The present use of limits, for pages and the API. Blocks on the database and on Redis."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import F

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.limits import usage
from mcp_app.limits.limiter import budget_key
from mcp_app.limits.matching import Caller, subject_of
from mcp_app.limits.rules import BUDGET, CONCURRENT, MICROSECONDS, RATE, Bucket, Period, Rule, Who
from mcp_app.models import ApiKey, LimitUsage
from mcp_app.streams.blocking import limits as shared

# The subjects of one rule that pages show, those refused last first.
MOST_SHOWN: Final = 50
# The rules whose use one page reads, and the stored periods that name their subjects.
MOST_RULES: Final = 200
MOST_PERIODS: Final = 1_000
LATELY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Fill:
    """The use of one measure of a rule by one subject.

    ``used`` is None if Redis is unavailable. ``resets`` is the end of a budget's period, or the time at
    which the burst of a rate is whole again. ``next_call`` is the time at which a rate that is used up allows
    a call again. ``refused`` counts the last day, or the period of a budget.
    """

    bucket: Bucket
    used: int | None
    limit: int
    resets: datetime | None
    refused: int
    refused_at: datetime | None
    next_call: datetime | None = None

    @property
    def percent(self) -> int:
        """The used part, at most 100."""
        return min(100, round(100 * (self.used or 0) / self.limit))


def of_rule(rule: Rule) -> list[Fill]:
    """Return the fills of a rule's own subject, or of those that used it lately."""
    subjects = _own_subjects(rule)
    since = clock.utcnow() - max(LATELY, timedelta(days=31) if rule.budget else LATELY)
    known = usage.rows_of([rule.id]).filter(period_start__gte=since)
    ordered = known.order_by(F("refused_at").desc(nulls_last=True), "-units").values_list(
        "subject", flat=True
    )
    subjects |= set(list(dict.fromkeys(ordered[: MOST_SHOWN * 4]))[:MOST_SHOWN])
    return fills([Bucket(rule, measure, each) for each in sorted(subjects) for measure in rule.measures()])


def of_rules(rules: Collection[Rule]) -> list[Fill]:
    """Return the fills of several rules, the fullest first: of own subjects, and of those seen lately."""
    read = list(rules)[:MOST_RULES]
    subjects = {rule.id: _own_subjects(rule) for rule in read}
    since = clock.utcnow() - timedelta(days=31)
    known = usage.rows_of(subjects).filter(period_start__gte=since)
    ordered = known.order_by("-period_start", F("refused_at").desc(nulls_last=True), "-units")
    for row in ordered.only("rule_id", "tool_id", "subject")[:MOST_PERIODS]:
        if len(subjects[row.number]) < MOST_SHOWN:
            subjects[row.number].add(row.subject)
    buckets = [
        Bucket(rule, measure, each)
        for rule in read
        for each in sorted(subjects[rule.id])
        for measure in rule.measures()
    ]
    return sorted(fills(buckets), key=lambda fill: -fill.percent)


def _own_subjects(rule: Rule) -> set[str]:
    """Return the only subject of a rule, or an empty set if it may have several."""
    if rule.who == Who.INSTALLATION:
        return {"all"}
    if rule.who == Who.GROUP:
        return {f"group:{rule.group}"} if rule.group else set()
    return set(rule.users) if len(rule.users) == 1 else set()


def of_caller(rules: Iterable[Rule], caller: Caller) -> list[Fill]:
    """Return the fills of all rules that may limit a caller, whichever tool it calls.

    The calls per minute of tools are left out unless the caller used them, so that the caller learns of
    no further tools.
    """
    found = [
        Bucket(rule, measure, subject)
        for rule in rules
        if (subject := subject_of(rule, caller))
        for measure in rule.measures()
    ]
    return [each for each in fills(found) if each.bucket.rule.tool_id is None or each.used or each.refused]


def fills(buckets: Collection[Bucket]) -> list[Fill]:
    """Return what is used of each bucket."""
    now = clock.utcnow()
    refused, spent = _stored(buckets, now)
    numbers = _counted(buckets, now)
    found = []
    for bucket in buckets:
        key = _key(bucket, now)
        number = None if numbers is None else numbers.get(key)
        number = max(number or 0, spent.get(bucket, 0)) if bucket.measure == BUDGET else number
        used, resets = _used(bucket, number or 0, now)
        again = _next_call(bucket, number or 0, now)
        count, at = refused.get(bucket, (0, None))
        is_unknown = numbers is None and bucket.measure != BUDGET
        found.append(Fill(bucket, None if is_unknown else used, _limit(bucket), resets, count, at, again))
    return found


def lately_refused(seconds: float = 86_400.0) -> list[LimitUsage]:
    """Return the subjects that a limit refused lately, the last one first."""
    since = clock.utcnow() - timedelta(seconds=seconds)
    rows = LimitUsage.objects.filter(refused_at__gte=since, refused__gt=0)
    return list(rows.select_related("rule", "tool").order_by("-refused_at")[:MOST_SHOWN])


def names_of(subjects: Iterable[str]) -> dict[str, str]:
    """Return the texts of subjects, with the names of users, groups and API keys."""
    asked = set(subjects)
    users, keys = _numbers(asked, "user:"), _numbers(asked, "key:")
    people: Any = get_user_model()._default_manager
    names = {f"user:{each.pk}": each.get_username() for each in people.filter(pk__in=users)}
    for group in Group.objects.filter(pk__in=_numbers(asked, "group:")):
        names[f"group:{group.pk}"] = f"members of {group.name}"
    for key in ApiKey.objects.filter(pk__in=keys).select_related("user"):
        names[f"key:{key.pk}"] = f"{key.name} ({key.user.get_username()})"
    return {each: names.get(each) or ("all callers" if each == "all" else each) for each in asked}


def _numbers(subjects: Collection[str], prefix: str) -> list[str]:
    numbers = (each.removeprefix(prefix) for each in subjects if each.startswith(prefix))
    return [each for each in numbers if each.isascii() and each.isdecimal()]


def _key(bucket: Bucket, now: datetime) -> str:
    if bucket.measure == BUDGET:
        return budget_key(bucket, Period.at(bucket.rule.budget_period, now))
    return f"limit/{bucket.key}" if bucket.measure == CONCURRENT else bucket.key


def _counted(buckets: Collection[Bucket], now: datetime) -> dict[str, int] | None:
    if not conf.get().redis_url or not buckets:
        return None if buckets else {}
    keys: dict[str, list[str]] = {RATE: [], BUDGET: [], CONCURRENT: []}
    for bucket in buckets:
        keys[bucket.measure].append(_key(bucket, now))
    try:
        return shared.read(keys[RATE], keys[BUDGET], keys[CONCURRENT])
    except shared.Unavailable:
        return None


def _stored(
    buckets: Collection[Bucket], now: datetime
) -> tuple[dict[Bucket, tuple[int, datetime | None]], dict[Bucket, int]]:
    """Return the refusals and the spent units that are stored."""
    by_place = {(each.rule.id, each.subject, each.measure): each for each in buckets}
    rules = {each.rule.id for each in buckets}
    subjects = {each.subject for each in buckets}
    refused: dict[Bucket, tuple[int, datetime | None]] = {}
    spent: dict[Bucket, int] = {}
    since = now - timedelta(days=31)
    for row in usage.rows_of(rules).filter(subject__in=subjects, period_start__gte=since):
        bucket = by_place.get((row.number, row.subject, row.measure))
        if bucket is None:
            continue
        is_current = row.period_start >= now - LATELY
        if bucket.measure == BUDGET:
            is_current = row.period_start == Period.at(bucket.rule.budget_period, now).start
        if is_current:
            count, at = refused.get(bucket, (0, None))
            latest = max((each for each in (at, row.refused_at) if each is not None), default=None)
            refused[bucket] = count + row.refused, latest
            spent[bucket] = max(spent.get(bucket, 0), row.units)
    return refused, spent


def _used(bucket: Bucket, number: int, now: datetime) -> tuple[int, datetime | None]:
    if bucket.measure == BUDGET:
        return number, Period.at(bucket.rule.budget_period, now).end
    if bucket.measure == CONCURRENT:
        return number, None
    used = min(bucket.burst, -(-number // bucket.rule.emission))
    whole = (now + timedelta(seconds=number / MICROSECONDS + 1)).replace(microsecond=0)
    return used, whole if number else None


def _next_call(bucket: Bucket, number: int, now: datetime) -> datetime | None:
    """Return the time at which a rate that is used up allows a call again, or None."""
    if bucket.measure in (BUDGET, CONCURRENT):
        return None
    wait = number - (bucket.burst - 1) * bucket.rule.emission
    return (now + timedelta(seconds=wait / MICROSECONDS + 1)).replace(microsecond=0) if wait > 0 else None


def _limit(bucket: Bucket) -> int:
    amounts = {CONCURRENT: bucket.rule.concurrent, BUDGET: bucket.rule.budget}
    return amounts.get(bucket.measure, bucket.burst)
