"""Toolsets over HTTP: for each role, toolset, era and method, lists and uses of entries agree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db.models import JSONField, Value

from mcp_app import asgi, prompt, resource, tool
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.changes.services import update_entry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.toolsets.groups import memberships_of
from mcp_app.catalogue.toolsets.services import delete_toolset, save_toolset
from mcp_app.database.queries import aquery
from mcp_app.doctor.finding import Level
from mcp_app.doctor.installation import Installation
from mcp_app.doctor.toolsets import offered
from mcp_app.limits.services import save_rule
from mcp_app.models import Tool, Toolset
from mcp_app.protocol.features.tasks import EXTENSION
from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from tests.unit.transports.streamable_http.asgi import Exchange, Server, hello, request
from tests.unit.transports.streamable_http.modern import meta, modern

pytestmark = pytest.mark.django_db(transaction=True)

OK, LOGIN, FORBIDDEN, UNKNOWN, UNAVAILABLE = 200, 401, 403, 404, 503
ROLES = ("local", "stranger", "member", "superuser")
TOOLSETS = ("open", "logged-in", "team", "tagged", "disabled")
STATUS: dict[tuple[str, str], int] = {
    **{(role, name): OK for role in ROLES for name in ("open", "tagged")},
    **{(role, "logged-in"): OK for role in ROLES if role != "local"},
    ("local", "logged-in"): LOGIN,
    ("local", "team"): LOGIN,
    ("stranger", "team"): FORBIDDEN,
    ("member", "team"): OK,
    ("superuser", "team"): OK,
    **{(role, "disabled"): UNKNOWN for role in ROLES},
}
# The entries of each toolset. Those with the permission are for the member and the superuser only.
REGISTERED = {"add", "code_review", "notes://today", "notes://{slug}"}
NEEDS_PERMISSION = {"guarded", "password", "vault://first", "vault://{slug}/all"}
OWN = NEEDS_PERMISSION | {"first", "second", "hello", "notes://first", "notes://second", "notes://{slug}/all"}
CONTENTS = {
    "open": NEEDS_PERMISSION | {"first", "hello", "notes://first"},
    "logged-in": OWN | REGISTERED | {"slow"},
    "team": {
        "second",
        "slow",
        "notes://second",
        "notes://{slug}",
        "notes://{slug}/all",
        "vault://{slug}/all",
    },
    "tagged": {"first", "guarded", "notes://{slug}/all"},
}
RESOURCES = {"notes://first", "notes://second"}
# Requests about tasks, which name a task that may not exist.
TASKS = {
    "legacy": ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"),
    "modern": ("tasks/get", "tasks/update", "tasks/cancel"),
}
KINDS = {
    "first": "tool",
    "second": "tool",
    "guarded": "tool",
    "hello": "prompt",
    "notes://first": "resource",
    "notes://second": "resource",
    "notes://{slug}/all": "template",
    "password": "prompt",
    "vault://first": "resource",
    "vault://{slug}/all": "template",
}
LISTED = ("tool", "prompt", "resource", "template")
LISTS = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}


def named(kind: str, *keys: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "key": key} for key in keys]


def uses(key: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the requests that use an entry."""
    match KINDS[key]:
        case "tool":
            return [("tools/call", {"name": key, "arguments": {}})]
        case "prompt":
            ref = {"type": "ref/prompt", "name": key}
            complete = {"ref": ref, "argument": {"name": "name", "value": ""}}
            return [
                ("prompts/get", {"name": key, "arguments": {"name": "x"}}),
                ("completion/complete", complete),
            ]
        case "resource":
            return [("resources/read", {"uri": key}), ("resources/subscribe", {"uri": key})]
        case _:
            ref = {"type": "ref/resource", "uri": key}
            complete = {"ref": ref, "argument": {"name": "slug", "value": ""}}
            return [
                ("resources/read", {"uri": key.replace("{slug}", "x")}),
                ("completion/complete", complete),
            ]


def first() -> str:
    return "first"


def second() -> str:
    return "second"


def slow() -> str:
    return "slow"


def guarded() -> str:
    return "guarded"


def greeting(name: str) -> str:
    return name


def all_notes(slug: str) -> str:
    return slug


def store(slug: str, members: Any, rules: Any = (), *, audience: str = "everyone", **values: Any) -> Toolset:
    return save_toolset(
        actor=None, slug=slug, members=members, rules=list(rules), audience=audience, **values
    )


@pytest.fixture
def keys(django_user_model: Any) -> dict[str, str | None]:
    """Store the catalogue, the toolsets and the users. Return the Authorization header of each role."""
    tool(tags=["money"])(first)
    tool(second)
    tool(background=True)(slow)
    tool(tags=["money"], permission="auth.use_it")(guarded)
    prompt(name="hello")(greeting)
    resource("notes://first")(lambda: "1")
    resource("notes://second")(lambda: "2")
    resource("notes://{slug}/all", tags=["money"])(all_notes)
    prompt(name="password", permission="auth.use_it")(greeting)
    resource("vault://first", permission="auth.use_it")(lambda: "3")
    resource("vault://{slug}/all", permission="auth.use_it")(all_notes)
    mirror()
    team = Group.objects.create(name="Team")
    kind = ContentType.objects.get_for_model(Group)
    team.permissions.add(Permission.objects.create(codename="use_it", content_type=kind, name="Use it"))
    own = {
        "tool": ("first", "guarded"),
        "prompt": ("hello", "password"),
        "resource": ("notes://first", "vault://first"),
        "template": ("vault://{slug}/all",),
    }
    store("open", [each for kind, names in own.items() for each in named(kind, *names)])
    store("logged-in", [], [{"kind": kind} for kind in LISTED], audience="logged_in")
    rules = [{"prefix": "notes://second"}, {"kind": "template", "source": "code"}]
    permissions = memberships_of(["Team"])
    store("team", named("tool", "second", "slow"), rules, audience="groups", permissions=permissions)
    store("tagged", [], [{"tag": "money"}])
    store("disabled", named("tool", "first"), enabled=False)
    current_snapshot.refresh_now()
    found: dict[str, str | None] = {"local": None}
    for role in ROLES[1:]:
        user = django_user_model.objects.create_user(role, is_superuser=role == "superuser")
        if role == "member":
            user.groups.add(team)
        found[role] = f"Bearer {issue_api_key(user=user, name=role)[1]}"
    return found


@pytest.fixture
async def server(keys: Any) -> AsyncIterator[Server]:
    """Return one process behind the router of a project."""
    streams = Streams.in_memory()
    await streams.start()
    made = Server(streams, redis_url="redis://nowhere.invalid", grace_seconds=0.0)
    application = asgi.get_application(not_found)
    application.routes["/mcp"] = made.endpoint
    application.routes |= dict.fromkeys(
        ("/sse", "/messages", "/messages/"), HttpSse(made.process, made.endpoint)
    )
    made.application = application
    yield made
    made.endpoint.connections.drain()
    await made.process.calls.close(0.01)


async def not_found(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": UNKNOWN, "headers": []})
    await send({"type": "http.response.body", "body": b"the project"})


class Caller:
    """A client of one era with one role at one address."""

    def __init__(self, server: Server, era: str, key: str | None, path: str) -> None:
        self.server, self.is_modern, self.path = server, era == "modern", path
        self.headers: dict[str, str | None] = {"authorization": key}

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Exchange:
        if self.is_modern:
            told = meta(**{CLIENT_CAPABILITIES: {"extensions": {EXTENSION: {}}}})
            found = modern(self.server, method, params, headers=self.headers, path=self.path, told=told)
        else:
            found = self.server.send(message=request(method, params), headers=self.headers, path=self.path)
        return await found.done()

    async def answer(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Return the answer to a request, as one body or at the end of its stream."""
        found = await self.send(method, params)
        is_stream = found.headers[b"content-type"] == b"text/event-stream"
        return found.messages[-1] if is_stream else found.json

    async def open(self) -> Exchange:
        """Open a session, or ask for the description of the server."""
        if self.is_modern:
            return await self.send("server/discover")
        opened = await self.send("initialize", hello())
        if opened.status == OK:
            self.headers["mcp-session-id"] = opened.headers[b"mcp-session-id"].decode()
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self.server.send(message=ready, headers=self.headers, path=self.path).done()
        return opened

    async def listed(self) -> set[str]:
        """Return the keys of all listed entries."""
        found: set[str] = set()
        for method, (member, key) in LISTS.items():
            found |= {entry[key] for entry in (await self.send(method)).json["result"][member]}
        return found

    async def usable(self, key: str) -> set[bool]:
        """Return the outcomes of all requests that use an entry."""
        outcomes = set()
        for method, params in uses(key):
            if self.is_modern and method == "resources/subscribe":
                continue
            answer = await self.answer(method, params)
            outcomes.add("result" in answer and not answer["result"].get("isError"))
        return outcomes

    async def task(self) -> dict[str, Any]:
        """Return the answer to a call that asks for a task."""
        params: dict[str, Any] = {"name": "slow", "arguments": {}}
        found: dict[str, Any] = (
            await self.send("tools/call", params if self.is_modern else {**params, "task": {}})
        ).json
        return found

    async def about(self, task_id: str) -> set[bool]:
        """Return the outcomes of all requests about a task. The last one cancels it."""
        outcomes = set()
        for method in ("tasks/get", "tasks/cancel"):
            answer = (await self.send(method, {"taskId": task_id})).json
            outcomes.add("result" in answer)
        if not self.is_modern:
            # The result of a cancelled task is its error, so the answer is told by its words.
            answer = (await self.send("tasks/result", {"taskId": task_id})).json
            outcomes.add("not found" not in answer["error"]["message"])
        return outcomes

    async def granted(self, uris: set[str]) -> set[str]:
        """Return the resources of a subscription that the server grants."""
        asked = {"notifications": {"resourceSubscriptions": sorted(uris)}}
        stream = modern(self.server, "subscriptions/listen", asked, headers=self.headers, path=self.path)
        await stream.until(b"acknowledged")
        (acknowledged,) = stream.messages
        stream.gone.set()
        await stream.done()
        return set(acknowledged["params"]["notifications"].get("resourceSubscriptions", ()))


@pytest.mark.requirement("TSET-01", "TSET-02")
async def test_tasks_and_subscriptions_agree_with_lists_in_every_cell(
    server: Server, keys: dict[str, str | None]
) -> None:
    for era in ("legacy", "modern"):
        for role in ROLES:
            usable = [name for name in TOOLSETS if STATUS[role, name] == OK]
            callers = {name: Caller(server, era, keys[role], f"/mcp/{name}") for name in usable}
            made = {name: await task_made(caller, (era, role, name)) for name, caller in callers.items()}
            for name, caller in callers.items():
                if era == "legacy" and role != "local":
                    listed = (await caller.send("tasks/list")).json["result"]["tasks"]
                    assert [each["taskId"] for each in listed] == ([made[name]] if made[name] else [])
                for task_id in {*made.values()} - {made[name], ""}:
                    assert await caller.about(task_id) == {False}, (era, role, name)
            for name in filter(made.get, usable):
                assert await callers[name].about(made[name]) == {True}, (era, role, name)


async def task_made(caller: Caller, cell: tuple[str, str, str]) -> str:
    """Return the task that a caller gets at a toolset, or "" if the tool is not in it."""
    await caller.open()
    offered = CONTENTS[cell[2]]
    if caller.is_modern:
        assert await caller.granted(RESOURCES) == RESOURCES & offered, cell
    answer = await caller.task()
    assert ("result" in answer) is ("slow" in offered), (cell, answer)
    result = answer.get("result", {})
    return str(result.get("task", result).get("taskId", ""))


@pytest.mark.requirement("TSET-01", "TSET-02")
async def test_lists_and_uses_agree_for_every_role_toolset_and_era(
    server: Server, keys: dict[str, str | None]
) -> None:
    for era in ("legacy", "modern"):
        for role in ROLES:
            for name in TOOLSETS:
                cell = (era, role, name)
                caller = Caller(server, era, keys[role], f"/mcp/{name}")
                opened = await caller.open()
                assert opened.status == STATUS[role, name], (cell, opened.body)
                if opened.status != OK:
                    await refused(caller, cell, opened.status)
                    continue
                hidden = NEEDS_PERMISSION if role in ("local", "stranger") else set()
                assert await caller.listed() == CONTENTS[name] - hidden, cell
                for key in KINDS:
                    assert await caller.usable(key) == {key in CONTENTS[name] - hidden}, (*cell, key)


async def refused(caller: Caller, cell: Any, status: int) -> None:
    """Every method is refused like the first request, with the reason."""
    caller.headers["mcp-session-id"] = None if caller.is_modern else "unknown"
    about = [
        (method, {"taskId": str(uuid4())}) for method in TASKS["modern" if caller.is_modern else "legacy"]
    ]
    listen = ("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    every = [*((each, None) for each in LISTS), *(use for key in KINDS for use in uses(key)), *about]
    for method, params in [*every, *([listen] if caller.is_modern else [])]:
        answer = await caller.send(method, params)
        assert answer.status == status, (cell, method)
        if status == FORBIDDEN:
            assert "not a member of Team" in answer.json["error"]["message"]
        if status == LOGIN:
            assert b"www-authenticate" in answer.headers
    listening = caller.server.send("GET", headers=caller.headers, path=caller.path)
    assert (await listening.done()).status == (status if not caller.is_modern else listening.status)


async def test_sse_twin_applies_the_same_rule(server: Server, keys: dict[str, str | None]) -> None:
    for role in ROLES:
        for name in TOOLSETS:
            headers = {"accept": "text/event-stream", "authorization": keys[role]}
            stream = server.send("GET", headers=headers, path=f"/sse/{name}")
            if STATUS[role, name] == OK:
                await stream.until(f"/messages/{name}?session_id=".encode())
                stream.gone.set()
            assert (await stream.done()).status == STATUS[role, name], (role, name)


@pytest.mark.requirement("TSET-03")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_removed_member_loses_the_toolset_and_its_streams(
    era: str, server: Server, keys: dict[str, str | None], django_user_model: Any
) -> None:
    caller = Caller(server, era, keys["member"], "/mcp/team")
    await caller.open()
    assert await caller.usable("second") == {True}
    listen = {"notifications": {"toolsListChanged": True}}
    if era == "modern":
        stream = modern(server, "subscriptions/listen", listen, headers=caller.headers, path=caller.path)
        await stream.until(b"acknowledged")
    else:
        stream = server.listen(caller.headers, path=caller.path)
        await stream.until(b"id:")
    member = await django_user_model.objects.aget(username="member")
    await member.groups.aclear()
    # The signal of the change broadcasts this to every process.
    server.process._credentials_changed({"user": member.pk})
    assert (await caller.send("tools/list")).status == FORBIDDEN
    await stream.done()
    assert stream.is_complete


@pytest.mark.requirement("TSET-04")
async def test_only_clients_of_a_changed_list_are_notified(
    server: Server, keys: dict[str, str | None]
) -> None:
    streams = {}
    for name in ("open", "tagged", "logged-in"):
        caller = Caller(server, "modern", keys["superuser"], f"/mcp/{name}")
        listen = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
        streams[name] = modern(
            server, "subscriptions/listen", listen, headers=caller.headers, path=caller.path
        )
        legacy = Caller(server, "legacy", keys["superuser"], f"/mcp/{name}")
        await legacy.open()
        streams[f"{name} legacy"] = server.listen(legacy.headers, path=legacy.path)
        await streams[name].until(b"acknowledged")
        await streams[f"{name} legacy"].until(b"id:")
    await aquery(change_second)
    await current_snapshot.refresh()
    server.process.catalogue_refresher._run_callbacks()
    for era in ("", " legacy"):
        await streams[f"logged-in{era}"].until(b"tools/list_changed")
    row = await Toolset.objects.aget(slug="open")
    await aquery(lambda: save_toolset(actor=None, toolset=row, members=named("prompt", "hello", "password")))
    await current_snapshot.refresh()
    server.process.catalogue_refresher._run_callbacks()
    for era in ("", " legacy"):
        await streams[f"open{era}"].until(b"tools/list_changed")
    for name, stream in streams.items():
        assert b"prompts/list_changed" not in stream.body
        assert (b"tools/list_changed" in stream.body) == ("tagged" not in name)
        stream.gone.set()
        await stream.done()


def change_second() -> None:
    update_entry(entry=Tool.objects.get(name="second"), actor=None, title="Changed")


@pytest.mark.requirement("TSET-05")
async def test_default_toolset_is_served_at_mcp(server: Server, keys: dict[str, str | None]) -> None:
    caller = Caller(server, "modern", None, "/mcp")
    assert {"first", "second"} <= await caller.listed()
    row = await Toolset.objects.aget(slug="tagged")
    await aquery(lambda: save_toolset(actor=None, toolset=row, is_default=True))
    await current_snapshot.refresh()
    assert await caller.listed() == CONTENTS["tagged"] - NEEDS_PERMISSION
    assert await caller.usable("second") == {False}


async def test_deleted_toolset_is_unknown(server: Server, keys: dict[str, str | None]) -> None:
    row = await Toolset.objects.aget(slug="open")
    await aquery(lambda: delete_toolset(toolset=row, actor=None))
    await current_snapshot.refresh()
    assert (await Caller(server, "modern", None, "/mcp/open").open()).status == UNKNOWN


@pytest.mark.parametrize(
    ("slug", "reason"),
    [
        ("unknown", "no toolset"),
        ("disabled", "disabled"),
        ("logged-in", "needs a login"),
        ("team", "not a member of Team"),
    ],
)
def test_stdio_command_refuses_a_toolset_with_the_reason(slug: str, reason: str, keys: Any) -> None:
    with pytest.raises(CommandError, match=reason):
        call_command("mcp_stdio", toolset=slug)


@pytest.mark.requirement("TSET-05")
async def test_limit_of_the_default_toolset_holds_at_mcp(server: Server, keys: dict[str, str | None]) -> None:
    values = {"who": "installation", "what": "toolset", "what_value": "open", "budget": 1}
    await aquery(lambda: save_rule(actor=None, name="once", **values))
    call = ("tools/call", {"name": "first"})
    caller = Caller(server, "modern", keys["member"], "/mcp")
    for _ in range(2):
        assert not (await caller.answer(*call))["result"].get("isError")
    row = await Toolset.objects.aget(slug="open")
    await aquery(lambda: save_toolset(actor=None, toolset=row, is_default=True))
    await current_snapshot.refresh()
    outcomes = [(await caller.answer(*call))["result"].get("isError", False) for _ in range(2)]
    assert outcomes == [False, True]
    caller.path = "/mcp/open"
    assert (await caller.answer(*call))["result"]["isError"]
    await aquery(lambda: save_toolset(actor=None, toolset=row, is_default=False))
    await current_snapshot.refresh()
    caller.path = "/mcp"
    assert not (await caller.answer(*call))["result"].get("isError")


DAMAGES: dict[str, Any] = {
    "members without a kind": {"members": [{"key": "first"}]},
    "members of another type": {"members": None},
    "rules of another type": {"rules": ["tag:money"]},
    "permissions of another type": {"permissions": 7},
}


@pytest.mark.requirement("TSET-05")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_damaged_default_toolset_offers_nothing(
    damage: dict[str, Any], server: Server, keys: dict[str, str | None]
) -> None:
    row = await Toolset.objects.aget(slug="open")
    await aquery(lambda: save_toolset(actor=None, toolset=row, is_default=True))
    await current_snapshot.refresh()
    stream = modern(
        server, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers={}, path="/mcp"
    )
    await stream.until(b"acknowledged")
    columns = {name: Value(value, JSONField()) for name, value in damage.items()}
    await Toolset.objects.filter(slug="open").aupdate(**columns)
    await current_snapshot.refresh(force=True)
    server.process.catalogue_refresher._run_callbacks()
    await stream.done()
    for era in ("legacy", "modern"):
        for role, path in product(("local", "superuser"), ("/mcp", "/mcp/open")):
            caller = Caller(server, era, keys[role], path)
            for method in (*LISTS, "tools/call"):
                answer = await caller.send(method, {"name": "first"} if method == "tools/call" else None)
                assert answer.status == UNAVAILABLE, (era, role, path, method, answer.body)
                assert "open" in answer.json["error"]["message"]
    for path in ("/sse", "/sse/open"):
        listening = server.send("GET", headers={"accept": "text/event-stream"}, path=path)
        assert (await listening.done()).status == UNAVAILABLE, path
    fine = Caller(server, "modern", None, "/mcp/tagged")
    assert await fine.listed() == CONTENTS["tagged"] - NEEDS_PERMISSION
    findings = await aquery(lambda: list(offered(Installation())))
    assert [(each.check, each.level) for each in findings] == [("toolsets.offered", Level.ERROR)]
