"""A host project may drop Unfold: the tests of this folder also hold in Django's own admin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@pytest.mark.process
def test_every_admin_test_holds_without_unfold() -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_") and name != "TEST_DATA_DIR"
    }
    # A process of its own: which skin is in use is decided once, when the admin is imported.
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(HERE)]
    command += ["-p", "tests.plugins.one_of_each"]
    # How often a password may be guessed is not a matter of the skin, and slow.
    command += ["-k", "not wrong_passwords and not guessing"]
    command += [f"--ignore={__file__}", "--ds=tests.integration.admin.plain_settings"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
