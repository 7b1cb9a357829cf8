"""Comparison of a document with the catalogue, which gives the necessary changes or all problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.row_checks import permission_exists
from mcp_app.catalogue.changes.services import EntryChange, check_change
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.lookup import named, own_fields, source_of, travelling
from mcp_app.catalogue.sources.precedence import UNSET
from mcp_app.catalogue.transfer import fields
from mcp_app.catalogue.transfer.exports import FORMAT, VERSION
from mcp_app.catalogue.transfer.field_defaults import Untouched
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused
from mcp_app.catalogue.transfer.sections import SECTIONS, Section
from mcp_app.models import Tool
from mcp_app.models.catalogue import Row

MAX_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """The effective values of a field before and after an import, as JSON values."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that an import creates, changes or deletes. ``action`` is added, changed or removed.

    ``warnings`` are doubts about the entry in the file, which do not prevent the import.
    """

    action: str
    kind: str
    key: str
    fields: tuple[FieldDifference, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """The effects of an import: changes for ``services``, writes of further sections, and differences."""

    changes: list[EntryChange] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    writes: list[Callable[[Any], None]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    unchanged: int = 0


def plan(document: Any, *, prune: bool) -> Plan:
    """Return the changes that turn the catalogue into ``document``.

    With ``prune``, entries made in the admin that the document lacks are deleted. Code entries that it lacks
    lose the values set by administrators. Raises TransferRefused with all problems.
    """
    sections = _sections(document)
    planner = _Planner()
    for section in fields.SECTIONS:
        for index, entry in enumerate(sections[section]):
            planner.add(section, index, entry)
    if prune:
        planner.prune()
    for further in SECTIONS:
        # A file that was exported before there was such a list must not delete its rows.
        is_pruned = prune and further.name in document
        planner.add_rows(further, sections[further.name], prune=is_pruned)
    if planner.problems:
        raise TransferRefused(planner.problems)
    return planner.plan


def _sections(document: Any) -> dict[str, list[Any]]:
    """Return the lists of entries. Raises TransferRefused for an unsupported document."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _refused("format", f"This is not a catalogue file (format {FORMAT!r} is missing).")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise _refused("version", f"Must be {VERSION}, the only version that this installation can read.")
    names = [*fields.SECTIONS, *(section.name for section in SECTIONS)]
    if unknown := sorted(document.keys() - {"format", "version", *names}):
        raise _refused(unknown[0], f"Unknown: a file has {', '.join(names)}.")
    for section in names:
        if not isinstance(document.get(section, []), list):
            raise _refused(section, "Must be a list of entries; [] when there are none.")
    sections = {section: document.get(section, []) for section in names}
    if sum(map(len, sections.values())) > MAX_ENTRIES:
        raise _refused("", f"The file has more than {MAX_ENTRIES} entries: split it.")
    return sections


def _refused(name: str, text: str) -> TransferRefused:
    return TransferRefused([Problem("", name, text)])


class _Planner:
    """A comparison of a file with the stored rows, which are read once at construction."""

    def __init__(self) -> None:
        self.plan = Plan()
        self.problems: list[Problem] = []
        self._rows: dict[type[Any], dict[str, Any]] = {
            kind: {revisions.key_of(row): row for row in kind._default_manager.all()}
            for kind in fields.SECTIONS.values()
        }
        self._named: dict[type[Any], set[str]] = {kind: set() for kind in fields.SECTIONS.values()}
        self._untouched = Untouched()

    def add(self, section: str, index: int, entry: Any) -> None:
        """Plan one entry of the document, or record all its problems."""
        kind = fields.SECTIONS[section]
        key = self._key(kind.KIND, kind.KEY, f"{section}[{index}]", entry, self._named[kind])
        if key is None:
            return
        where = f"{kind.KIND} {key}"
        row = self._rows[kind].get(key)
        if fault := _source_fault(kind, key, entry.get("source"), row):
            self._complain(where, "source", fault)
            return
        source = named(kind, entry["source"])
        self._compare(where, source, kind, key, row, self._read(where, kind, source, entry))

    def prune(self) -> None:
        """Plan the removal of entries that the document lacks."""
        for kind, rows in self._rows.items():
            for key, row in sorted(rows.items()):
                source = source_of(row)
                if key in self._named[kind] or not source.travels or row.missing:
                    continue
                if source.follows:
                    self._compare(f"{kind.KIND} {key}", source, kind, key, row, _Given({}, set()))
                else:
                    self.plan.removed.append(row)
                    self.plan.differences.append(Difference("removed", kind.KIND, key))

    def add_rows(self, section: Section, entries: list[Any], *, prune: bool) -> None:
        """Plan the rows of a further section, or record all their problems."""
        rows, named = section.rows(), set[str]()
        for index, entry in enumerate(entries):
            key = self._key(section.kind, section.key, f"{section.name}[{index}]", entry, named)
            if key is None:
                continue
            given = {name: value for name, value in entry.items() if name != section.key}
            try:
                self._compare_row(section, key, rows.get(key), section.read(key, given))
            except ValidationError as error:
                self._complain_of(f"{section.kind} {key}", error)
        for key in sorted(rows.keys() - named) if prune else ():
            self.plan.writes.append(partial(section.write, key, None))
            self.plan.differences.append(Difference("removed", section.kind, key))

    def _compare_row(
        self, section: Section, key: str, present: dict[str, Any] | None, wanted: dict[str, Any]
    ) -> None:
        before = dict.fromkeys(wanted) if present is None else present
        changed = {
            name: value
            for name, value in wanted.items()
            if present is None or not fields.same(before[name], value)
        }
        if present is not None and not changed:
            self.plan.unchanged += 1
            return
        self.plan.writes.append(partial(section.write, key, wanted))
        self.plan.differences.append(_difference(present, section.kind, key, before, changed))

    def _key(self, kind: str, name: str, place: str, entry: Any, named: set[str]) -> str | None:
        """Return the key of an entry, and add it to the keys ``named`` so far."""
        if not isinstance(entry, dict):
            self._complain(place, "", "An entry must be an object.")
            return None
        key = entry.get(name)
        try:
            check_storable(key)
        except ValidationError as error:
            self._complain(place, name, " ".join(error.messages))
            return None
        if not isinstance(key, str) or not key:
            self._complain(place, name, "Must be text that is not empty: it is what clients call the entry.")
            return None
        if key in named:
            self._complain(f"{kind} {key}", "", "It is in the file twice: keep one.")
            return None
        named.add(key)
        return key

    def _read(self, where: str, kind: type[Any], source: Source, entry: Mapping[str, Any]) -> _Given:
        """Return the valid fields, and record a problem for each faulty field."""
        given = _Given({}, set())
        known = fields.names_of(kind, source)
        for name, value in entry.items():
            if name in ("source", kind.KEY):
                continue
            try:
                if name not in known:
                    raise ValueError(_unknown_field(kind, source, name, known))
                given.values[name] = fields.read_value(kind, name, value)
                if name == "preset_of" and value is not None and value not in self._rows[Tool]:
                    raise ValueError(f"There is no tool {value!r} here: install it, or correct the name.")
            except ValueError as error:
                given.faulty.add(name)
                self._complain(where, name, str(error))
        return given

    def _compare(
        self, where: str, source: Source, kind: type[Any], key: str, row: Any, given: _Given
    ) -> None:
        usual = self._untouched.values_of(row) if source.follows else fields.empty_values(kind, source)
        present = usual if row is None else fields.values_to_compare(row)
        wanted = {name: value for name, value in (usual | given.values).items() if name not in given.faulty}
        changed = {name: value for name, value in wanted.items() if not fields.same(present[name], value)}
        if row is not None and not changed:
            self.plan.unchanged += 1
            return
        values = changed if row is not None else {**wanted, kind.KEY: key}
        values = fields.service_values(values, self._rows[Tool])
        change = EntryChange(kind=kind, entry=row, values=values, source=source)
        warnings = self._check(where, change, given.faulty)
        if "permission" in changed and changed["permission"] != usual["permission"]:
            self._check_permission(where, changed["permission"])
        self.plan.changes.append(change)
        served = {} if row is None else source.in_force(row)
        found = _difference(row, kind.KIND, key, _served(present, served), _served(changed, served))
        self.plan.differences.append(replace(found, warnings=warnings))

    def _check(self, where: str, change: EntryChange, faulty: set[str]) -> tuple[str, ...]:
        """Record the problems of a change. Return the warnings about a change without problems."""
        try:
            row = check_change(change)
        except ValidationError as error:
            self._complain_of(where, error, faulty)
            return ()
        found = source_of(row).warnings(row)
        return tuple(f"{name}: {text}" for name, texts in found.items() for text in texts)

    def _check_permission(self, where: str, permission: str) -> None:
        """Record a problem for an unknown permission, because no user can have it."""
        if "." in permission and not permission_exists(permission):
            text = f"There is no permission {permission!r} here: migrate its app, or correct it."
            self._complain(where, "permission", text)

    def _complain_of(self, where: str, error: ValidationError, known: Iterable[str] = ()) -> None:
        """Record the problems of an entry, except those of fields that are ``known`` to be faulty."""
        by_field = error.message_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.messages}
        for name, messages in by_field.items():
            if name not in known:
                self._complain(where, "" if name == NON_FIELD_ERRORS else name, " ".join(messages))

    def _complain(self, entry: str, name: str, text: str) -> None:
        self.problems.append(Problem(entry, name, text))


@dataclass(frozen=True, slots=True)
class _Given:
    values: dict[str, Any]
    faulty: set[str]


def _source_fault(kind: type[Any], key: str, source: Any, row: Any) -> str:
    """Return the reason why an entry of this source and key is impossible here, or ""."""
    if source not in (known := travelling(kind)):
        return f"Must be one of: {', '.join(known)}."
    if row is not None and not named(kind, source).owns(row):
        return f"Here its source is {row.source!r}: rename it in the file, or take it out."
    return named(kind, source).unavailable(kind, key, row)


def _unknown_field(kind: type[Any], source: Source, name: str, known: list[str]) -> str:
    if name in own_fields(kind) and source.follows:
        return f"This is defined in {source.origin} and cannot be changed here: take it out of the file."
    return f"There is no such field; there are: {', '.join(known)}."


def _served(values: Mapping[str, Any], beneath: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with those of the source in place of unset values."""
    return {name: beneath.get(name, value) if value in UNSET else value for name, value in values.items()}


def _difference(
    row: Any, kind: str, key: str, present: Mapping[str, Any], changed: Mapping[str, Any]
) -> Difference:
    found = (
        FieldDifference(name, fields.shown(present[name]), fields.shown(new)) for name, new in changed.items()
    )
    return Difference("changed" if row is not None else "added", kind, key, tuple(found))
