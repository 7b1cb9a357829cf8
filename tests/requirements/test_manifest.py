"""The manifest says the truth: claimed means tested, tested means claimed, and every id exists."""

from __future__ import annotations

from tests.requirements import manifest, page

REQUIREMENTS = manifest.load()
MARKS = manifest.marks()


def test_every_claimed_requirement_has_a_test() -> None:
    unproven = [item.id for item in REQUIREMENTS.values() if item.claimed and item.id not in MARKS]
    assert not unproven, f"claimed without a test: {unproven}"


def test_every_marked_requirement_is_in_the_manifest() -> None:
    unknown = {name: tests for name, tests in MARKS.items() if name not in REQUIREMENTS}
    assert not unknown


def test_what_tests_prove_is_claimed() -> None:
    unclaimed = [name for name in MARKS if name in REQUIREMENTS and not REQUIREMENTS[name].claimed]
    assert not unclaimed, f"tested but not claimed, set them to claimed: {sorted(unclaimed)}"


def test_every_line_has_a_level_revisions_a_known_state_and_a_sentence() -> None:
    assert not [item for item in REQUIREMENTS.values() if not _complete(item)]


def _complete(item: manifest.Requirement) -> bool:
    state, _, reason = item.state.partition(": ")
    stated = item.claimed or (state in ("later", "not-applicable") and bool(reason))
    known = item.level in manifest.LEVELS and item.revisions.startswith(("R", "ext"))
    return stated and known and item.text.endswith(".")


def test_the_page_of_the_documentation_says_the_same() -> None:
    remedy = "write it anew: python -m tests.requirements.page"
    assert page.PAGE.read_text(encoding="utf-8") == page.text(REQUIREMENTS.values()), remedy
