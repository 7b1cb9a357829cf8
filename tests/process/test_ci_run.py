"""When CI is green: `.ci/run` itself, with suites of a few tests in place of the real ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSES = "def test_it_passes():\n    pass\n"
FAILS = "def test_it_fails():\n    assert 1 == 2, 'wrong for good'\n"
# Fails in the first run only.
ONCE = """
import pathlib
import pytest
@pytest.mark.parametrize("number", range({count}))
def test_it_fails_once(number):
    mark = pathlib.Path(__file__).with_name(f"seen-{{number}}")
    seen = mark.exists()
    mark.touch()
    assert seen, "the machine was busy"
"""
WHOLE_RUN = """
import pytest
class Unpublished(AssertionError): ...
@pytest.fixture(scope="session", autouse=True)
def verdict():
    yield
    import pathlib
    mark = pathlib.Path(__file__).with_name("judged")
    if not mark.exists():
        mark.touch()
        raise Unpublished("what no schema knows")
def test_it_passes(): ...
"""
BROKEN_OFF = "import pytest\ndef test_a(): assert 0\ndef test_b(): pytest.exit('enough', returncode=3)\n"
# Passes if the suite that opens the other end runs at the same time.
MEETS = """
def test_it_meets_the_other_row():
    open("meeting", {mode!r}).close()
"""
# Fails in the first run, and in the second unless another suite has ended before.
AFTER = """
import pathlib
def test_it_passes_after_the_other_row():
    assert pathlib.Path("seen").exists(), pathlib.Path("seen").touch()
    assert pathlib.Path("ended").exists(), "the other row is running"
"""
ENDS = "import pathlib\ndef test_it_passes(): pathlib.Path('ended').touch()\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the real `.ci/run` and ``suite_<make target>.py`` files; other suites pass."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    plugins = tmp_path / "tests" / "plugins"
    plugins.mkdir(parents=True)
    (tmp_path / "tests" / "__init__.py").touch()
    (plugins / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "plugins" / "rerun.py", plugins / "rerun.py")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "chromium-headless-shell").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "chromium-headless-shell").chmod(0o755)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conformance.txt").write_text("conformance: 9 passed, 0 failed\n")
    (tmp_path / "Makefile").write_text(
        "conformance:\n\tcat conformance.txt\n"
        "%:\n"
        "\t@if [ ! -e suite_$@.py ]; then echo '1 passed'; exit 0; fi; "
        ".venv/bin/python -m pytest -n 2 --dist loadfile suite_$@.py $(ARGS)\n"
    )
    return tmp_path


def ci(checkout: Path) -> tuple[int, str]:
    environment = {
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(checkout),
    }
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.process
def test_run_with_all_suites_passing_is_green(checkout: Path) -> None:
    for target in ("test", "wheel"):
        (checkout / f"suite_{target}.py").write_text(PASSES)
    status, said = ci(checkout)
    assert status == 0, said
    assert "unstable" not in said
    for target in ("test", "test-system", "test-postgres", "conformance", "wheel", "browser"):
        assert re.search(rf"passed  make {target}\n +\d+ s; ", said)
    assert re.search(r"All of it took \d+ s\.", said)


@pytest.mark.process
def test_flaky_test_is_named_and_run_is_green(checkout: Path) -> None:
    (checkout / "suite_test.py").write_text(PASSES + ONCE.format(count=2))
    ping = "unstable: all: ping: 1 checks failed"
    (checkout / "conformance.txt").write_text(f"{ping}\nconformance: 9 passed, 0 failed\n")
    status, said = ci(checkout)
    assert status == 0, said
    named = [line for line in said.splitlines() if line.startswith("unstable: ")]
    assert "unstable: suite_test.py::test_it_fails_once[0] (AssertionError: the machine was busy)" in named
    assert ping in named


@pytest.mark.process
@pytest.mark.parametrize(
    ("suite", "why"),
    [
        (FAILS, "test failing twice"),
        (ONCE.format(count=6), "more than five flaky tests"),
        (WHOLE_RUN, "verdict on the whole run"),
        (BROKEN_OFF, "aborted run"),
        ("import nothing_of_that_name\n", "unreadable file"),
        ("", "empty suite"),
    ],
)
def test_run_with_failing_suite_is_red(checkout: Path, suite: str, why: str) -> None:
    (checkout / "suite_test-postgres.py").write_text(suite)
    status, said = ci(checkout)
    assert status == 1, f"{why}\n{said}"
    assert "FAILED  make test-postgres" in said
    assert "passed  make browser" in said, "the other suites run all the same"


@pytest.mark.process
def test_flaky_tests_of_all_suites_are_counted_together(checkout: Path) -> None:
    for target in ("test-system", "browser"):
        (checkout / f"suite_{target}.py").write_text(ONCE.format(count=3).replace("seen-", f"{target}-"))
    status, said = ci(checkout)
    assert status == 1, said
    assert "More than 5 unstable tests" in said


@pytest.mark.process
def test_both_rows_run_at_the_same_time(checkout: Path) -> None:
    os.mkfifo(checkout / "meeting")
    (checkout / "suite_test.py").write_text(MEETS.format(mode="r"))
    (checkout / "suite_test-system.py").write_text(MEETS.format(mode="w"))
    status, said = ci(checkout)
    assert status == 0, said


@pytest.mark.process
def test_failed_tests_run_again_after_both_rows(checkout: Path) -> None:
    (checkout / "suite_test.py").write_text(AFTER)
    (checkout / "suite_test-postgres.py").write_text(ENDS)
    status, said = ci(checkout)
    assert status == 0, said
    assert "unstable: suite_test.py::test_it_passes_after_the_other_row" in said
