"""The manifest is accurate: claimed means tested, tested means claimed, and every id exists."""

from __future__ import annotations

from tests.requirements import manifest, page

REQUIREMENTS = manifest.load()


def test_every_claimed_requirement_has_test() -> None:
    unproven = [item.id for item in REQUIREMENTS.values() if item.claimed and item.id not in manifest.marks()]
    assert not unproven, f"claimed without a test: {unproven}"


def test_every_marked_requirement_is_in_manifest() -> None:
    unknown = {name: tests for name, tests in manifest.marks().items() if name not in REQUIREMENTS}
    assert not unknown


def test_every_tested_requirement_is_claimed() -> None:
    unclaimed = [name for name in manifest.marks() if name in REQUIREMENTS and not REQUIREMENTS[name].claimed]
    assert not unclaimed, f"tested but not claimed, set them to claimed: {sorted(unclaimed)}"


def test_every_requirement_has_level_revisions_state_and_sentence() -> None:
    assert not [item for item in REQUIREMENTS.values() if not _complete(item)]


def _complete(item: manifest.Requirement) -> bool:
    state, _, reason = item.state.partition(": ")
    stated = item.claimed or (state in ("later", "not-applicable") and bool(reason))
    known = item.level in manifest.LEVELS and item.revisions.startswith(("R", "ext"))
    return stated and known and item.text.endswith(".")


def test_conformance_page_matches_manifest() -> None:
    remedy = "write it anew: python -m tests.requirements.page"
    assert page.PAGE.read_text(encoding="utf-8") == page.text(REQUIREMENTS.values()), remedy
