"""The console's WebSocket for each role, with exactly the needed permission, and after its removal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group

from mcp_app.auth.roles import make_roles
from mcp_app.console import consumer
from tests.integration.console.conftest import Page
from tests.integration.console.conftest import console as console  # noqa: PLC0414 - a fixture
from tests.integration.console.conftest import streams as streams  # noqa: PLC0414 - a fixture
from tests.integration.roles import people
from tests.integration.roles.people import PEOPLE, Asking, holding
from tests.integration.roles.table import ways
from tests.integration.roles.ways_there_are import SOCKET

pytestmark = pytest.mark.django_db(transaction=True)
WAYS = {way.variant: way for way in ways() if way.method == "WS"}
SAID: dict[str, Any] = {
    "watch=sessions": {"watch": "sessions"},
    "watch=messages": {"watch": "messages", "search": "", "session": ""},
    "watch=needs": {"watch": "needs"},
    "drawn": {"drawn": 0},
}
Open = Callable[[Asking], Page]


@pytest.fixture
async def opened(console: Any) -> AsyncIterator[Open]:
    """Return a factory of pages of a user."""
    made: list[Page] = []

    def start(asking: Asking) -> Page:
        made.append(
            Page(console, asking.client().cookies.output(attrs=[], header="", sep=";").strip(), {}, SOCKET)
        )
        return made[-1]

    yield start
    for each in made:
        await each.close()


async def _outcomes(opened: Open, asking: Asking) -> dict[str, bool]:
    """Return the outcome of each way."""
    found = {}
    for variant in WAYS:
        page = opened(asking)
        found[variant] = is_open = await page.open()
        if is_open and variant:
            await page.say(SAID[variant])
            # A confirmation gets no reply: a later frame shows that the connection is open.
            if variant == "drawn":
                await page.say({"watch": "nothing"})
            heard = await page.until(lambda frame: "watching" in frame)
            found[variant] = heard.get("closed") == 4400 if variant == "drawn" else "watching" in heard
            assert found[variant] or heard == {"closed": 4403}
    return found


async def test_every_socket_row_has_a_message() -> None:
    assert WAYS.keys() == SAID.keys() | {""}


@pytest.mark.parametrize("name", PEOPLE)
async def test_socket_access_matches_the_table(name: str, opened: Open, transactional_db: None) -> None:
    await sync_to_async(make_roles)()
    asking = await sync_to_async(people.asking)(name)
    expected = {variant: way.is_open_to(asking.person) for variant, way in WAYS.items()}
    assert await _outcomes(opened, asking) == expected


@pytest.mark.parametrize("named", ["view_session", "view_message", "change_session", "view_call"])
async def test_only_the_named_permission_is_needed(named: str, opened: Open, transactional_db: None) -> None:
    asking = await sync_to_async(holding)([f"mcp_app.{named}"])
    expected = {variant: way.is_open_to(asking.person) for variant, way in WAYS.items()}
    assert await _outcomes(opened, asking) == expected


async def _leave_the_group(user: Any) -> None:
    await user.groups.aclear()


async def _take_the_groups_right(user: Any) -> None:
    group = await Group.objects.aget(user=user)
    await group.permissions.aclear()


async def _be_deactivated(user: Any) -> None:
    await type(user).objects.filter(pk=user.pk).aupdate(is_active=False)


async def _leave(user: Any) -> None:
    await user.adelete()


@pytest.mark.parametrize("watched", ["watch=sessions", "watch=messages"])
@pytest.mark.parametrize("how", [_leave_the_group, _take_the_groups_right, _be_deactivated, _leave])
async def test_socket_closes_when_its_permission_is_removed(
    how: Any, watched: str, opened: Open, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.05)
    await sync_to_async(make_roles)()
    asking = await sync_to_async(people.asking)("auditor")
    page = opened(asking)
    assert await page.open()
    await page.say(SAID[watched])
    assert "watching" in await page.until(lambda frame: "watching" in frame)
    await how(asking.user)
    assert await page.until(lambda frame: False) == {"closed": 4403}
