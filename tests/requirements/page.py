"""Write ``docs/conformance.md`` from the manifest: ``python -m tests.requirements.page``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.requirements import manifest
from tests.requirements.manifest import Requirement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
HEAD = """# Conformance

Each requirement of the published revisions has an id and a state: *proved* by a test, *not applicable* for
the stated reason, or planned for *later*. `python -m tests.requirements.page` writes this page from the
manifest in `tests/requirements`; tests fail if the manifest and the tests differ.

The column Revisions abbreviates 2024-11-05 as R1, 2025-03-26 as R2, 2025-06-18 as R3, 2025-11-25 as R4 and
2026-07-28 as R5. The levels are those of the specification; REC is our own recommendation.

"""


def revisions_of(item: Requirement) -> set[int]:
    """Return the numbers of a requirement's revisions; of extensions, the newest."""
    found: set[int] = set()
    for part in item.revisions.replace(";", ",").split(","):
        words = part.strip().split(" ")[0]
        if not words.startswith("R") or not words[1:2].isdigit():
            continue
        first, _, last = words.partition("-")
        found.update(range(int(first[1]), int((last or first)[1]) + 1))
    return found or {len(REVISIONS)}


def text(items: Iterable[Requirement]) -> str:
    """Return the whole page."""
    rows = sorted(items, key=_order)
    summary = ["| Revision | Requirements | Proved | Not applicable | Later |", "|---|---|---|---|---|"]
    for number, revision in enumerate(REVISIONS, start=1):
        own = [item for item in rows if number in revisions_of(item)]
        states = [_state(item) for item in own]
        counts = (len(own), *(states.count(state) for state in ("proved", "not applicable", "later")))
        summary.append(f"| {revision} | " + " | ".join(map(str, counts)) + " |")
    table = ["| Id | Level | Revisions | State | Requirement |", "|---|---|---|---|---|", *map(_row, rows)]
    return HEAD + "\n".join(summary) + "\n\n" + "\n".join(table) + "\n"


def _order(item: Requirement) -> tuple[str, int, str]:
    family, _, number = item.id.rpartition("-")
    return family, int(number) if number.isdigit() else 0, item.id


def _state(item: Requirement) -> str:
    return "proved" if item.claimed else item.state.partition(":")[0].replace("-", " ")


def _row(item: Requirement) -> str:
    reason = item.state.partition(": ")[2]
    state = f"{_state(item)}: {reason}" if reason else _state(item)
    cells = (item.id, item.level, item.revisions, state, item.text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(text(manifest.load().values()), encoding="utf-8")
