"""The use of limits: noted by each process, and stored once a second."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest

from mcp_app.database import clock
from mcp_app.limits.rules import BUDGET, Bucket, Period
from mcp_app.metrics import tally
from mcp_app.models import LimitRule, LimitUsage, Tool

# The subjects whose refusals one process notes between two writes; further ones are only in the metrics.
MOST_NOTED: Final = 1_000
# The rules that have a label of their own in the metrics of one process.
MOST_LABELS: Final = 100
KEPT_DAYS: Final = 62
OTHER: Final = "other"

log = logging.getLogger("mcp.limits")

_Place = tuple[int, str, str, datetime]


@dataclass(slots=True)
class _Notes:
    units: dict[_Place, int]
    refused: Counter[_Place]


_noting = threading.Lock()
_notes = _Notes({}, Counter())
_labels: set[str] = set()


def note_spent(bucket: Bucket, start: datetime, units: int) -> None:
    """Note the units that are spent of a budget in the period that began at ``start``. Thread-safe."""
    place = bucket.rule.id, bucket.subject, BUDGET, start
    with _noting:
        _notes.units[place] = max(units, _notes.units.get(place, 0))


def note_refused(bucket: Bucket) -> None:
    """Note that a limit refused a call, or would refuse it if it were enforced. Thread-safe."""
    rule, now = bucket.rule, clock.utcnow()
    name = rule.budget_period if bucket.measure == BUDGET else "hour"
    place = rule.id, bucket.subject, bucket.measure, Period.at(name, now).start
    with _noting:
        is_first = place not in _notes.refused
        if not is_first or len(_notes.refused) < MOST_NOTED:
            _notes.refused[place] += 1
        label = rule.name if rule.name in _labels or len(_labels) < MOST_LABELS else OTHER
        _labels.add(label)
    if rule.observe:
        tally.note("observed", label)
    else:
        tally.note("limited", label)
    if is_first:
        verb = "would refuse" if rule.observe else "refuses"
        log.info("The limit %s %s calls of %s", rule.name, verb, bucket.subject)


def spent(bucket: Bucket, start: datetime) -> int:
    """Return the units that are stored or noted as spent of a budget. Blocks on the database."""
    rule, subject = bucket.rule.id, bucket.subject
    which = {**_owner(rule), "subject": subject, "measure": BUDGET, "period_start": start}
    stored = LimitUsage.objects.filter(**which)
    found = stored.values_list("units", flat=True).first() or 0
    with _noting:
        return max(found, _notes.units.get((rule, subject, BUDGET, start), 0))


def forget(rule: int) -> None:
    """Drop the notes about a rule, because what was used of it is reset."""
    with _noting:
        for place in [each for each in _notes.units if each[0] == rule]:
            del _notes.units[place]
        for place in [each for each in _notes.refused if each[0] == rule]:
            del _notes.refused[place]


def is_noted() -> bool:
    """Return True if there are notes to store."""
    return bool(_notes.units or _notes.refused)


def store() -> None:
    """Store all notes. Notes about rules that were deleted meanwhile are dropped. Blocks on the database.

    If the database fails, the notes stay for the next time.
    """
    with _noting:
        units, refused = dict(_notes.units), Counter(_notes.refused)
        _notes.units.clear()
        _notes.refused.clear()
    try:
        with transaction.atomic():
            present = _present({place[0] for place in (*units, *refused)})
            for place in {*units, *refused}:
                if place[0] in present:
                    _store(place, units.get(place, 0), refused[place])
    except DatabaseError as error:
        log.warning("What was used of limits could not be stored: %s", type(error).__name__)
        with _noting:
            for place, number in units.items():
                _notes.units[place] = max(number, _notes.units.get(place, 0))
            _notes.refused.update(refused)


def delete_old() -> int:
    """Delete what was used in periods that ended long ago. Return the number of rows."""
    before = clock.utcnow() - timedelta(days=KEPT_DAYS)
    return LimitUsage.objects.filter(period_start__lt=before).delete()[0]


def rows_of(rules: Iterable[int]) -> QuerySet[LimitUsage]:
    """Return the stored use of rules, which are numbered as ``Rule.id``."""
    numbers = set(rules)
    tools = [-number for number in numbers if number < 0]
    return LimitUsage.objects.filter(Q(rule_id__in=numbers) | Q(tool_id__in=tools))


def _owner(rule: int) -> dict[str, int]:
    return {"tool_id": -rule} if rule < 0 else {"rule_id": rule}


def _present(rules: set[int]) -> set[int]:
    """Return those rules that still exist."""
    stored = LimitRule.objects.filter(pk__in=[number for number in rules if number > 0])
    tools = Tool.objects.filter(pk__in=[-number for number in rules if number < 0])
    return {*stored.values_list("pk", flat=True), *(-pk for pk in tools.values_list("pk", flat=True))}


def _store(place: _Place, units: int, refused: int) -> None:
    rule, subject, measure, start = place
    which = {**_owner(rule), "subject": subject, "measure": measure, "period_start": start}
    changed: dict[str, object] = {}
    if units:
        changed["units"] = Greatest(F("units"), units)
    if refused:
        changed |= {"refused": F("refused") + refused, "refused_at": clock.utcnow()}
    if LimitUsage.objects.filter(**which).update(**changed):
        return
    try:
        with transaction.atomic():
            refused_at = clock.utcnow() if refused else None
            LimitUsage.objects.create(**which, units=units, refused=refused, refused_at=refused_at)
    except IntegrityError:
        # Another process has just created the row.
        LimitUsage.objects.filter(**which).update(**changed)
