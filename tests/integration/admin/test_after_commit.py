"""Effects of admin pages on calls after the commit: queued jobs and published responses."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from pytest_django.fixtures import Settings as DjangoSettings

from mcp_app.execution.background.celery import waiting
from mcp_app.models import Call
from mcp_app.streams import Streams
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed
from tests.samples.approved_work import guarded_tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def seeded(seeded_anew: Seed) -> Seed:
    return seeded_anew


@pytest.fixture
def with_redis(clean_redis: str, settings: DjangoSettings) -> str:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    return clean_redis


def test_approved_call_job_is_queued_after_commit(viewer: Client, seeded: Seed) -> None:
    may = Permission.objects.filter(codename__in=["view_call", "decide_call"])
    seeded.viewer.user_permissions.set(may)
    guarded_tool("discard").save(force_insert=True)
    queued = waiting("celery")
    viewer.post(page("approval", "approve", seeded.undecided_call.pk), {"reason": ""}, follow=True)
    assert waiting("celery") == queued + 1


def test_stopped_call_response_reaches_its_stream(root: Client, seeded: Seed, with_redis: str) -> None:
    call = seeded.waiting_call
    root.post(page("call", "stop", call.pk))

    async def final() -> list[bytes]:
        streams = Streams.connect(with_redis)
        await streams.start()
        head = await streams.log.head(call.session_id, call.stream)
        assert head is not None
        shown = await streams.log.read(call.session_id, call.stream, head.epoch, 0)
        await streams.close()
        return [event.data for event in shown.events if event.kind == "final"]

    assert asyncio.run(final()) == [Call.objects.get(pk=call.pk).answer.encode()]
    assert Call.objects.get(pk=call.pk).published
