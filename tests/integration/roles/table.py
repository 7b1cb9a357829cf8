"""A parser of the tables of docs/roles.md: every way, its requirements, and the roles that meet them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

from mcp_app.auth.roles import ROLES

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "roles.md"
BEGIN: Final = "## Every way in"
COLUMNS: Final = ("anonymous", "staff", "auditor", "operator", "administrator")
KINDS: Final = ("tool", "prompt", "resource", "resourcetemplate")
OWN: Final = KINDS[:3]
# The kinds of rows in catalogue files.
FILED: Final = (*KINDS, "toolset", "limitrule")
# Plural names in the API.
PLURALS: Final = {
    "tool": "tools",
    "prompt": "prompts",
    "resource": "resources",
    "resourcetemplate": "templates",
}
LEVELS: Final = ("anybody", "a user", "staff", "a superuser", "not served")
REQUEST: Final = re.compile("`((?:GET|POST|PATCH|DELETE|WS) /[^`]*)`")
OUTSIDE_OF_ADMIN: Final = ("/api/", "/connections/", "/mcp", "/metrics", "/sse", "/message")

Clause = frozenset[str]


@dataclass(frozen=True, slots=True)
class Person:
    """A user; ``permissions`` are those beyond every user's."""

    name: str
    permissions: Container[str] = frozenset()
    is_known: bool = True
    is_staff: bool = True
    is_superuser: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """A way into the server: a request, or a variant of it, and its requirements.

    ``clauses`` are sets of permissions, one of each is needed; ``level`` is the alternative
    requirement.
    """

    section: str
    method: str
    path: str
    variant: str
    level: str
    clauses: tuple[Clause, ...]
    roles: frozenset[str]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.variant}".strip()

    def is_open_to(self, person: Person) -> bool:
        """Return True if the table permits the way to this user."""
        if self.level in ("anybody", "not served"):
            return self.level == "anybody"
        if not person.is_known or not (person.is_staff or self.path.startswith(OUTSIDE_OF_ADMIN)):
            return False
        if person.is_superuser or self.level in ("a user", "staff"):
            return True
        # The console requires exactly this permission.
        asked = (
            self.clauses
            if self.path.startswith("/console/")
            else [widened(clause) for clause in self.clauses]
        )
        return bool(asked) and all(any(name in person.permissions for name in clause) for clause in asked)

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the endpoint's addresses."""
        return re.compile(re.escape(self.path).replace("<id>", "[^/]+").replace("<any>", ".*"))


def widened(clause: Clause) -> Clause:
    """Return the clause with the permissions that include it: a change permission includes view."""
    return clause | {name.replace(".view_", ".change_") for name in clause}


def person_of(role: str) -> Person:
    """Return the user of a column."""
    given = ROLES.get(f"MCP {role}", frozenset())
    return Person(role, frozenset(map(_labelled, given)), is_known=role != "anonymous")


def _labelled(name: str) -> str:
    """Return a permission of a role with its app label."""
    app = "mcp_oauth" if name.endswith(("_client", "_connection")) else "mcp_app"
    return f"{app}.{name}"


@cache
def ways() -> tuple[Way, ...]:
    """Return every way of every table, in the order of the document."""
    return tuple(_read(DOCUMENT.read_text().partition(f"\n{BEGIN}\n")[2].splitlines()))


def _read(lines: Iterable[str]) -> Iterator[Way]:
    section = ""
    for line in lines:
        if line.startswith("## "):
            return
        if line.startswith("### "):
            section = line[4:].strip()
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and REQUEST.search(cells[0]):
            assert len(cells) == 2 + len(COLUMNS), line
            ticks = dict(zip(COLUMNS, cells[2:], strict=True))
            assert set(ticks.values()) <= {"✓", ""}, line
            roles = frozenset(role for role, tick in ticks.items() if tick)
            for text in REQUEST.findall(cells[0]):
                yield from _ways(section, text, cells[1], roles)


def _ways(section: str, text: str, needs: str, roles: frozenset[str]) -> Iterator[Way]:
    kinds = KINDS if "<kind" in text else OWN if "<own" in text else ("",)
    for kind in kinds:
        method, path, variant = (*_of(kind, text).split(" "), "")[:3]
        level, clauses = _needs(_of(kind, needs))
        yield Way(section, method, path, variant, level, clauses, roles)


def _of(kind: str, text: str) -> str:
    plural = PLURALS.get(kind, "")
    for placeholder, name in (("<kinds>", plural), ("<owns>", plural), ("<kind>", kind), ("<own>", kind)):
        text = text.replace(placeholder, name)
    return text


def _needs(text: str) -> tuple[str, tuple[Clause, ...]]:
    """Parse the second column: a level, or clauses of which one permission each is needed."""
    if text in LEVELS:
        return text, ()
    clauses: list[Clause] = []
    for part in text.split(" and "):
        names = [_whole(name) for name in re.findall("`([^`]+)`", part)]
        assert names, f"What does {text!r} need?"
        every = [_of(kind, name.replace("*", "<kind>")) for kind, name in product(FILED, names)]
        if part.startswith("every "):
            clauses += [frozenset({name}) for name in every]
        else:
            clauses.append(frozenset(every if part.startswith("any ") else names))
    return "", tuple(clauses)


def _whole(name: str) -> str:
    return name if "." in name else f"mcp_app.{name}"
