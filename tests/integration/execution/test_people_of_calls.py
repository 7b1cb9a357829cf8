"""The upgrade sets the person of open calls that an earlier version accepted."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from mcp_app.execution.admission.checks import open_of
from mcp_app.execution.stored import records
from mcp_app.execution.stored.acceptance import new_stream
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from tests.unit.execution.attempts import new_call

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def test_migration_sets_the_person_of_open_calls() -> None:
    keys = ["user:1/key:2", "user:1/client:3", "user:4/bench/by:5", "loopback"]
    for key in keys:
        records.accept(new_call(principal=key, request_id=key, stream=new_stream()))
    over, _ = records.accept(new_call(request_id="over", stream=new_stream()))
    Call.objects.update(person="")
    Call.objects.filter(pk=over.id).update(state=State.COMPLETED)
    migration = import_module("mcp_app.migrations.0038_calls_of_people")
    migration.name_people(apps, SimpleNamespace(connection=connection))
    found = dict(Call.objects.exclude(pk=over.id).values_list("principal", "person"))
    assert found == dict(zip(keys, ["user:1", "user:1", "user:5", "loopback"], strict=True))
    assert Call.objects.get(pk=over.id).person == ""
    assert [open_of(person) for person in ("user:1", "user:5")] == [2, 1]
