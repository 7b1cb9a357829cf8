"""Storage of long results: owners, quota, expiry."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from mcp_app.auth.principal import Principal
from mcp_app.database import clock
from mcp_app.execution.calls.results import to_result
from mcp_app.execution.long_results import storage
from mcp_app.execution.long_results.keeping import LongResults
from mcp_app.execution.long_results.pages import Page
from mcp_app.execution.long_results.storage import Caller
from mcp_app.models import ResultPage, StoredResult
from mcp_app.protocol.errors import ResourceNotFound
from tests.unit.catalogue.entries import tool_entry

pytestmark = pytest.mark.postgres

ADA = Caller("user:1/key:7", None, "/mcp")
QUOTA = 10_000
PRINCIPAL = Principal(key="loopback", name="local user", permissions=frozenset())


def stored(caller: Caller = ADA, *, size: int = 10, seconds: float = 60, quota: int = QUOTA) -> str:
    key = secrets.token_hex(16)
    # Rows of the same millisecond have no order.
    StoredResult.objects.update(created_at=F("created_at") - timedelta(seconds=1))
    storage.store(key, caller, "search", [Page("text/plain", "x" * size)], seconds, quota)
    return key


@pytest.mark.django_db
def test_pages_round_trip() -> None:
    pages = [Page("text/plain", "a\0é\r\n👍"), Page("image/png", "aGVsbG8=", is_blob=True)]
    key = secrets.token_hex(16)
    storage.store(key, ADA, "search", pages, 60, QUOTA)
    assert [storage.read(key, ADA, number) for number in (1, 2)] == [(page, 2) for page in pages]
    assert storage.read(key, ADA, 0) is storage.read(key, ADA, 3) is None


@pytest.mark.requirement("TOOL-27")
@pytest.mark.django_db
@pytest.mark.parametrize(
    "caller",
    [
        ADA._replace(principal="user:1"),
        ADA._replace(principal="user:1/key:70"),
        ADA._replace(principal="user:2/key:7"),
        ADA._replace(principal="loopback"),
        ADA._replace(path="/mcp/sales"),
    ],
    ids=lambda caller: caller.principal,
)
def test_result_of_another_caller_is_not_found(caller: Caller) -> None:
    key = stored()
    assert storage.read(key, ADA, 1) is not None
    assert storage.read(key, caller, 1) is None


@pytest.mark.django_db
def test_expired_results_are_not_found_and_purged() -> None:
    expired, valid = stored(seconds=-1), stored()
    assert storage.read(expired, ADA, 1) is None
    assert storage.purge() == 1
    assert [each.pk for each in StoredResult.objects.all()] == [valid]
    assert ResultPage.objects.count() == 1


@pytest.mark.django_db
def test_quota_deletes_the_oldest_results_of_the_person_alone(monkeypatch: Any) -> None:
    other, elsewhere = stored(ADA._replace(principal="user:2")), ADA._replace(principal="user:1")
    first, second, third = stored(size=4000), stored(elsewhere, size=4000), stored(size=4000)
    assert {each.pk for each in StoredResult.objects.all()} == {other, second, third}
    large = stored(size=QUOTA + 1)
    assert {each.pk for each in StoredResult.objects.all()} == {other, large}
    assert first not in ResultPage.objects.values_list("result_id", flat=True)
    monkeypatch.setattr(storage, "MAX_PER_PERSON", 2)
    newest = [stored(quota=10**9) for _ in range(3)][1:]
    assert {each.pk for each in StoredResult.objects.all()} == {other, *newest}


@pytest.mark.django_db
def test_result_stored_after_the_clock_was_set_back_remains() -> None:
    older = stored(size=4000)
    StoredResult.objects.filter(pk=older).update(created_at=clock.now(3600))
    newest = stored(size=QUOTA)
    assert [each.pk for each in StoredResult.objects.all()] == [newest]


@pytest.mark.django_db
def test_results_are_deleted_with_their_user() -> None:
    user = User.objects.create_user("ada")
    stored(Caller(f"user:{user.pk}", user.pk, "/mcp"))
    user.delete()
    assert not ResultPage.objects.exists()
    assert not StoredResult.objects.exists()


def entry(**options: Any) -> Any:
    def function() -> Any: ...

    return tool_entry(function, **options)


LONG = "\n".join(f"line {number}" for number in range(20_000))


@pytest.mark.django_db(transaction=True)
async def test_result_of_a_call_that_never_waits_is_readable_at_once() -> None:
    kept, tool = LongResults(), entry()
    result = kept.cut_now(to_result(LONG, tool), tool, PRINCIPAL, "/mcp")
    uri = result["content"][-1]["uri"]
    page = (await kept.contents(uri, PRINCIPAL, "/mcp"))["contents"][0]
    assert LONG.startswith(page["text"])
    await kept.close()


@pytest.mark.django_db(transaction=True)
async def test_cut_result_states_that_the_rest_is_not_stored(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "RESULT_SECONDS": 0}
    tool = entry()
    for result in (
        await LongResults().cut(to_result(LONG, tool), tool, PRINCIPAL, "/mcp"),
        LongResults().cut_now(to_result(LONG, tool), tool, PRINCIPAL, "/mcp"),
    ):
        assert [each["type"] for each in result["content"]] == ["text", "text"]
        assert "is not stored" in result["content"][1]["text"]


@pytest.mark.django_db(transaction=True)
async def test_result_is_cut_while_the_database_fails() -> None:
    tool = entry()
    nobody = Principal(key="user:9", name="deleted", permissions=frozenset(), user_id=999_999)
    result = await LongResults().cut(to_result(LONG, tool), tool, nobody, "/mcp")
    assert "is not stored" in result["content"][1]["text"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "uri",
    [
        "result://",
        "result://x",
        "result://" + "0" * 32,
        "result://" + "0" * 32 + "/0",
        "result://" + "0" * 33,
    ],
)
async def test_unknown_address_is_not_found(uri: str) -> None:
    with pytest.raises(ResourceNotFound) as raised:
        await LongResults().contents(uri, PRINCIPAL, "/mcp")
    assert raised.value.data == {"uri": uri}
