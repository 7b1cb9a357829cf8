"""Projects without Unfold: tests of what a skin draws also pass in Django's own admin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# Every list, row and form; widgets, actions and messages. The skin only frames the other pages, and
# ``tests/browser/test_plain_pages.py`` opens them.
CHOSEN = (
    *(
        "approval_pages",
        "call_pages",
        "catalogue_pages",
        "delete_pages",
        "groups",
        "hostile_text",
        "http_error_pages",
        "json_field",
    ),
    *("keys", "listed_lookups", "log_form", "login", "roles"),
)


@pytest.mark.process
def test_chosen_admin_tests_pass_without_unfold() -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_") and name != "TEST_DATA_DIR"
    }
    # A separate process: the skin is chosen when the admin is imported.
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    command += [str(HERE / f"test_{name}.py") for name in CHOSEN]
    command += ["-p", "tests.plugins.one_of_each"]
    # Limits of password guessing do not depend on the skin, and their tests are slow.
    command += ["-k", "not wrong_passwords and not guessing"]
    command += ["--ds=tests.integration.admin.plain_settings"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
