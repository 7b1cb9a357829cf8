"""The rules for subjects of commits, and the commits that they are applied to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.architecture.subjects import WIDTH, faults, main, new_subjects, subject_of

PERSON = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]


def git(root: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", root, *PERSON, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with three commits and the merge of a fourth."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "The old way")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "Add a rule\n\nIt says why.")
    git(root, "switch", "--quiet", "--create", "side")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "Add a side")
    git(root, "switch", "--quiet", "main")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "Added a fault")
    git(root, "merge", "--quiet", "--no-ff", "side", "--message", "merged.")
    return root


@pytest.mark.parametrize(
    "subject",
    [
        "Refuse approval by the maker of a machine",
        "Rename auth.refusals audit module",
        "Re-order the sidebar",
        "Embed Redis",
        "Feed the log in batches",
        "Bring the catalogue with migrate",
        "Pass the clock to leases",
        "Focus the first field",
        'Revert "Add a rule"',
        "Wait",
        "Fix " + "x" * (WIDTH - 4),
    ],
)
def test_imperative_subject_is_accepted(subject: str) -> None:
    assert list(faults(subject)) == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("Fix " + "x" * (WIDTH - 3), f"{WIDTH + 1} characters"),
        ("Fix the lease.", "full stop"),
        ("fix the lease", "capital letter"),
        ("CHANGELOG: shorter entries", "capital letter"),
        ("Tests: fewer mocks", "capital letter"),
        ("", "capital letter"),
        ("A docstring wraps", '"A" is not an imperative'),
        ("What audits refusals is called so", '"What" is not an imperative'),
        ("Added a rule", '"Added" is not an imperative'),
        ("Mended pages", '"Mended" is not an imperative'),
        ("Adding a rule", '"Adding" is not an imperative'),
        ("Fixes the lease", '"Fixes" is not an imperative'),
        ("Lists have pages", '"Lists" is not an imperative'),
    ],
)
def test_other_subject_is_refused_for_its_fault(subject: str, fault: str) -> None:
    (found,) = faults(subject)
    assert fault in found


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ("Add a rule\n", "Add a rule"),
        ("\n# A template\nAdd a rule\n\nBecause.\n# On branch main\n", "Add a rule"),
        ("Add a rule\nand another\n\nBecause.", "Add a rule and another"),
    ],
)
def test_subject_is_the_first_paragraph_of_a_message(message: str, subject: str) -> None:
    assert subject_of(message) == subject


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Add a rule", 0),
        ("Adds a rule", 1),
        ("fixup! Add a rule", 0),
        ("Merge remote-tracking branch 'origin/" + "x" * WIDTH, 0),
        ("Merge two tables.", 1),
    ],
)
def test_hook_accepts_good_messages_and_those_of_git(tmp_path: Path, message: str, status: int) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message)
    assert main([str(file)]) == status


@pytest.mark.process
def test_new_commits_follow_the_first_one_without_merges(repository: Path) -> None:
    first = git(repository, "rev-list", "--max-parents=0", "HEAD")
    assert new_subjects(repository, first) == ["Added a fault", "Add a side", "Add a rule"]


@pytest.mark.process
def test_shallow_clone_has_new_commits_only(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-list", "--max-parents=0", "HEAD")
    git(tmp_path, "clone", "--quiet", "--depth", "2", repository.as_uri(), "shallow")
    assert new_subjects(tmp_path / "shallow", first) == ["Added a fault", "Add a side"]


@pytest.mark.process
def test_folder_without_the_history_is_not_checked(repository: Path, tmp_path: Path) -> None:
    unknown = "1" * 40
    (repository / "inner").mkdir()
    assert new_subjects(tmp_path, unknown) is None
    assert new_subjects(repository, unknown) is None
    assert new_subjects(repository / "inner", git(repository, "rev-parse", "HEAD")) is None
