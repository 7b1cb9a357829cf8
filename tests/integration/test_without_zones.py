"""Projects with USE_TZ off: times of the project's code and stored times are the same moments."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from mcp_app.auth.api_keys import find_api_key, issue_api_key
from mcp_app.database import clock
from mcp_app.models import ApiKey

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Leases and keys; pages and the API, which show and accept times; rows of project models.
CHOSEN = (
    "calls/test_tasks.py", "api/test_keys.py", "api/test_lists.py", "admin/test_figures.py",
    "admin/test_keys.py", "admin/test_time_zone.py",
    "exposing/test_models.py", Path(__file__).name,
)  # fmt: skip
# In Berlin both are half past two in the night.
TWICE = (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


@pytest.mark.process
@pytest.mark.skipif(not settings.USE_TZ, reason="this is the process that it starts")
def test_calls_keys_pages_and_lists_work_without_time_zones() -> None:
    started = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    started.pop("TEST_DATA_DIR", None)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not thorough"]
    command += ["-p", "tests.plugins.one_of_each"]
    command += ["--ds=tests.without_zones", *(str(HERE / name) for name in CHOSEN)]
    done = subprocess.run(
        command, cwd=ROOT, env=started, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.django_db
@pytest.mark.postgres
def test_repeated_hour_is_stored_without_ambiguity() -> None:
    ada = User.objects.create_user("ada")
    for at in TWICE:
        ApiKey.objects.create(user=ada, name=str(at.hour), secret_hash=str(at.hour), expires_at=at)
    keys = ApiKey.objects.order_by("expires_at")
    assert [key.expires_at for key in keys] == list(TWICE)
    assert [key.expires_at.utcoffset() for key in keys] == [timedelta(0)] * 2
    assert keys.get(expires_at__gt=TWICE[0]).name == "1"


@pytest.mark.django_db
@pytest.mark.postgres
def test_database_clock_writes_the_current_time() -> None:
    key, _ = issue_api_key(user=User.objects.create_user("ada"), name="desk")
    ApiKey.objects.update(last_used_at=clock.now())
    key.refresh_from_db()
    assert key.last_used_at is not None
    assert abs(key.last_used_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert abs(clock.read() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
def test_key_expires_at_the_time_given_by_project_code() -> None:
    soon = timezone.now() + timedelta(minutes=1)
    key, secret = issue_api_key(user=User.objects.create_user("ada"), name="desk", expires_at=soon)
    found = find_api_key(secret)
    assert found == key
    assert timedelta(0) < ApiKey.objects.get().expires_at - datetime.now(UTC) < timedelta(minutes=2)
    ApiKey.objects.update(expires_at=clock.now(-1))
    assert find_api_key(secret) is None
