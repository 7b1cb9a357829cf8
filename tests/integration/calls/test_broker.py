"""Jobs: JSON without credentials; callers who lost a permission meanwhile are refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from tests.integration.calls.conftest import CAPABILITIES, Installation, start_call, text_of
from tests.servers.live import eventually

pytestmark = pytest.mark.process

KEY = """
from django.contrib.auth.models import Permission, User
from mcp_app.auth.api_keys import issue_api_key
user = User.objects.create_user("caller")
user.user_permissions.add(Permission.objects.get(codename="view_group"))
print(issue_api_key(user=user, name="calls")[1])
"""
REVOKE = """
from django.contrib.auth.models import User
User.objects.get(username="caller").user_permissions.clear()
"""


@pytest.fixture(scope="module")
def strict() -> Iterator[Installation]:
    """Start a web process that requires authentication, and a worker that tests start."""
    with Installation(
        1, settings="tests.ledger_app.settings", env={"MCP_AUTH": "required"}, worker=True, concurrency=1
    ) as server:
        assert isinstance(server, Installation)
        yield server


@pytest.fixture(scope="module")
def key(strict: Installation) -> str:
    return strict.shell(KEY).strip().splitlines()[-1]


def everything_in(client: redis.Redis) -> dict[str, str]:
    """Return every Redis key with its value as text."""
    return {str(name): repr(client.dump(name)) for name in client.keys("*")}  # type: ignore[union-attr]


def jobs_in(client: redis.Redis) -> list[dict[str, Any]]:
    """Return the enqueued jobs of every priority."""
    queues = [name for name in client.keys("celery*") if client.type(name) == b"list"]  # type: ignore[union-attr]
    return [json.loads(job) for name in queues for job in client.lrange(name, 0, -1)]  # type: ignore[union-attr]


@pytest.mark.requirement("CEL-09", "AUTH-08")
def test_job_has_no_credential_and_a_lost_permission_refuses_the_call(
    strict: Installation, key: str, nonce: str
) -> None:
    worker = strict.worker_processes[0]
    worker.stop()
    with (
        closing(strict.mcp(0, token=key)) as client,
        redis.Redis.from_url(strict.redis.url, protocol=2) as stores,
    ):
        client.initialize("2025-11-25", CAPABILITIES)
        with start_call(client, "guarded", nonce=nonce) as stream:
            eventually(lambda: jobs_in(stores), 10, "the job")
            (job,) = jobs_in(stores)
            assert job["content-type"] == "application/json"
            assert key not in json.dumps(job)
            assert client.session not in json.dumps(job)
            assert not [name for name, value in everything_in(stores).items() if key in value]
            strict.shell(REVOKE)
            worker.start(strict.environment)
            answer = stream.messages(30)[-1]
        assert answer["result"]["isError"]
        assert "no longer offered" in text_of(answer)
    assert strict.lines(nonce) == []
    assert key not in strict.logs()


def test_pickled_job_is_refused_without_unpickling(strict: Installation, key: str, nonce: str) -> None:
    """The message would create a file if it were unpickled."""
    mark = strict.folder / f"unpickled-{nonce}"
    code = f"""
        import os
        from kombu import Connection, Queue
        from django.conf import settings
        class Evil:
            def __reduce__(self):
                return (os.system, ("touch {mark}",))
        import kombu.serialization
        kombu.serialization.enable_insecure_serializers(["pickle"])
        with Connection(settings.CELERY_BROKER_URL) as connection:
            producer = connection.Producer(serializer="pickle")
            producer.publish(
                [[Evil()], {{}}, {{}}], routing_key="celery", exchange="",
                headers={{"task": "mcp_app.tasks.run_call", "id": "1"}},
            )
    """
    strict.shell("import textwrap; exec(textwrap.dedent(" + repr(code) + "))")
    with closing(strict.mcp(0, token=key)) as client:
        client.initialize()
        assert text_of(client.tool("repeat", value="after it")) == "after it"
    assert not mark.exists()
    assert strict.worker_processes[0].alive


def test_process_arguments_contain_no_redis_password(live: Installation) -> None:
    shown = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    assert live.redis._password not in shown
