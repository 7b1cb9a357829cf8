"""Two of our own servers, one behind the other, in each pair of revisions (INT-63)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, Self

import pytest

from mcp_app import Context, Link, ToolError
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.models import Upstream
from mcp_app.protocol.versions import SERVED, V2025_06_18, V2025_11_25, V2026_07_28
from mcp_app.streams.gateway import Streams
from mcp_app.testing import Client
from mcp_app.testing.answers import RequestError
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.upstreams import open_calls, sessions
from tests.servers.asgi_site import served
from tests.servers.sdk_server import sdk_server
from tests.servers.upstream_state import forget_upstreams
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.transports.streamable_http.asgi import LOOPBACK, Server

# A server that speaks HTTP+SSE only, in place of a revision.
OLD_TRANSPORT = "HTTP+SSE"
THEIRS = (*SERVED, OLD_TRANSPORT)

pytestmark = pytest.mark.django_db(transaction=True)


async def steps(ctx: Context, number: int) -> dict[str, int]:
    """Report each step."""
    for step in range(1, number + 1):
        ctx.progress(step, number, f"step {step}")
    ctx.warning("done soon")
    return {"steps": number}


async def failing() -> str:
    """Fail."""
    raise ToolError("Not today.")


async def greet(ctx: Context) -> str:
    """Ask for a name, then for an age."""
    name = await ctx.aelicit("Your name?", str)
    if not name:
        return name.action
    age = await ctx.aelicit(f"{name.value}, your age?", int)
    return f"{name.value} is {age.value}"


async def together(ctx: Context) -> str:
    """Ask two questions at once."""
    found = await asyncio.gather(ctx.aelicit("First?", str), ctx.aelicit("Second?", str))
    return " and ".join(answer.value for answer in found)


async def consent(ctx: Context) -> str:
    """Ask the user to open a page."""
    return (await ctx.aelicit_url("Allow it.", "https://example.com/allow", "7")).action


async def think(ctx: Context) -> str:
    """Ask the model."""
    return (await ctx.asample("Why?", max_tokens=9)).text


async def folders(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(root["uri"] for root in await ctx.aroots())


class Apart:
    """Views of a catalogue of their own, beside that of the process."""

    def __init__(self, server: Any, catalogue: Catalogue) -> None:
        self.server, self._catalogue = server, catalogue

    def of(self, permissions: Any, path: str = "/mcp") -> CatalogueView:
        return CatalogueView(self._catalogue, permissions, self.server)


async def welcome(ctx: Context, name: str) -> list[Any]:
    """Write a welcome."""
    mood = await ctx.aelicit("Mood?", str) if ctx.client.can("elicitation_form") else None
    link = {"type": "resource_link", "uri": "notes://all", "name": "all"}
    return [f"Welcome {name}" + (f", {mood.value}" if mood else ""), link]


def all_notes() -> str:
    """List the notes."""
    return "one, two"


def passwords() -> str:
    """Show a file of the server."""
    return "root:x"


def note(number: str) -> str:
    """Read a note."""
    return f"note {number}"


async def linked() -> list[Link]:
    """Link what is published, what is not, and what belongs to the web."""
    uris = ("notes://all", "notes://3", "file:///etc/passwd", "secret://key", "https://example.com/")
    return [Link(uri, "x") for uri in uris]


PAGE = "ui://map/page.html"


async def shown() -> str:
    """Return a result that a page shows."""
    return "shown"


def page() -> Any:
    """Return a page with the addresses that it may use."""
    csp = {"connectDomains": ["https://example.com"]}
    return {"uri": PAGE, "mimeType": APP, "text": "<p>map</p>", "_meta": {"ui": {"csp": csp}}}


APP = "text/html;profile=mcp-app"
ASKING: list[Any] = [greet, together, consent, think, folders]


class Behind:
    """A server for each of ``THEIRS``, on a thread. ``urls`` has their addresses."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        functions: list[Any] = [steps, failing, linked, *ASKING]
        entries = [tool_entry(each, number) for number, each in enumerate(functions, 1)]
        entries.append(tool_entry(shown, len(entries) + 1, meta={"ui": {"resourceUri": PAGE}}))
        numbers = {"number": ["1", "12", "3"]}
        catalogue = Catalogue(
            revision=5,
            revisions=dict.fromkeys(KINDS, 5),
            tools=entries,
            prompts=[prompt_entry(welcome, completions={"name": ["Ada", "Bob"]})],
            resources=[
                resource_entry(all_notes, "notes://all"),
                resource_entry(passwords, "file:///etc/passwd", 2),
                resource_entry(page, PAGE, 3),
            ],
            templates=[resource_entry(note, "notes://{number}", completions=numbers)],
        )
        async with AsyncExitStack() as stack:
            for version in THEIRS:
                streams = Streams.in_memory()
                await streams.start()
                is_old = version == OLD_TRANSPORT
                server = Server(streams, LOOPBACK, versions=SERVED if is_old else (version,))
                server.process.views = Apart(server.process.views.server, catalogue)  # type: ignore[assignment]
                transport = HttpSse(server.process, server.endpoint) if is_old else server.endpoint
                origin = await stack.enter_async_context(served(transport))
                self.urls[version] = f"{origin}/sse" if is_old else f"{origin}/mcp"
                stack.callback(server.endpoint.connections.drain)
            self._ready.set()
            await self._stop.wait()


def version_of(theirs: str) -> str:
    """Return the revision of a server. Over HTTP+SSE it is the newest with sessions."""
    return V2025_11_25 if theirs == OLD_TRANSPORT else theirs


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    with Behind() as found:
        yield found


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    yield
    forget_upstreams()
    assert not open_calls._parked


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize("theirs", THEIRS)
def test_call_passes_between_each_pair_of_revisions(behind: Behind, theirs: str) -> None:
    row = storing.save_upstream(actor=None, name="other", url=behind.urls[theirs])
    refreshing.refresh(upstream=row, actor=None)
    row = Upstream.objects.get()
    assert row.version == version_of(theirs)
    done = importing.import_items(upstream=row, keys=["steps", "failing"], actor=None, publish=True)
    assert done.published == ["other_steps", "other_failing"]
    for ours in SERVED:
        reports: list[Any] = []
        news, result, failed = asyncio.run(call(ours, reports))
        assert '"steps":3' in result["content"][0]["text"].replace(" ", ""), ours
        assert [report["progress"] for report in reports] == [1, 2, 3], ours
        assert "notifications/message" in [method for method, _ in news], ours
        assert (failed["isError"], failed["content"][0]["text"]) == (True, "Not today."), ours


async def call(version: str, reports: list[Any]) -> tuple[Any, Any, Any]:
    async with Client(stored=True, version=version) as ours:
        result = await ours.call_tool("other_steps", {"number": 3}, on_progress=reports.append)
        failed = await ours.call_tool("other_failing")
        return [*ours.notifications], result, failed


def add(behind: Behind, theirs: str, *tools: str, **values: Any) -> Upstream:
    row = storing.save_upstream(actor=None, name="other", url=behind.urls[theirs], **values)
    refreshing.refresh(upstream=row, actor=None)
    row = Upstream.objects.get()
    done = importing.import_items(upstream=row, keys=tools, actor=None, publish=True)
    assert done.skipped == {}
    return row


async def ask(version: str, tool: str, **answers: Any) -> str:
    async with Client(stored=True, version=version, **answers) as ours:
        try:
            result = await ours.call_tool(f"other_{tool}")
        except RequestError as error:
            return error.message
        return str(result["content"][0]["text"])


@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize("theirs", THEIRS)
def test_questions_pass_between_each_pair_of_revisions(behind: Behind, theirs: str) -> None:
    add(behind, theirs, "greet", "together", "consent", "think", "folders", sampling=True, roots=True)
    asked: list[str] = []
    prompts: list[str] = []

    def think(params: dict[str, Any]) -> str:
        prompts.append(params["systemPrompt"])
        return "Because."

    def fill(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"value": 7 if "age" in params["message"] else params["message"]}

    def agree(params: dict[str, Any]) -> str:
        # Ids of two servers must not collide.
        assert params.get("elicitationId", "other:").startswith("other:")
        return "accept"

    for ours in SERVED:
        common = min(ours, version_of(theirs))
        asks = common >= V2025_06_18
        told = asyncio.run(ask(ours, "greet", elicit=fill))
        assert told == ("other asks: Your name? is 7" if asks else told), ours
        assert asked == (["other asks: Your name?", "other asks: other asks: Your name?, your age?"] * asks)
        asked.clear()
        told = asyncio.run(ask(ours, "together", elicit=fill))
        assert told == ("other asks: First? and other asks: Second?" if asks else told), ours
        assert sorted(asked) == ["other asks: First?", "other asks: Second?"] * asks
        asked.clear()
        told = asyncio.run(ask(ours, "consent", elicit=agree))
        assert told == ("accept" if common >= V2025_11_25 else told), ours
        assert asyncio.run(ask(ours, "think", sample=think)) == "Because.", ours
        assert prompts.pop() == "The server other asks.", ours
        assert asyncio.run(ask(ours, "folders", roots=["file:///a"])) == "file:///a", ours


@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize("theirs", [V2025_11_25, V2026_07_28, OLD_TRANSPORT])
@pytest.mark.parametrize("ours", [V2025_11_25, V2026_07_28])
def test_declined_question_is_declined_at_the_server(behind: Behind, theirs: str, ours: str) -> None:
    add(behind, theirs, "greet", "think", "folders")
    assert asyncio.run(ask(ours, "greet", elicit="decline")) == "decline"
    for tool in ("think", "folders"):
        told = asyncio.run(ask(ours, tool, elicit={}, sample="Because.", roots=["file:///a"]))
        assert "did not declare" in told, tool


@pytest.mark.requirement("INT-64")
def test_questions_of_the_official_sdk_pass_over_http_sse() -> None:
    with sdk_server("/sse") as site:
        row = storing.save_upstream(actor=None, name="other", url=site.url)
        refreshing.refresh(upstream=row, actor=None)
        row.refresh_from_db()
        assert importing.import_items(upstream=row, keys=["greet"], actor=None, publish=True).published
        for ours in (V2025_06_18, V2025_11_25, V2026_07_28):
            told = asyncio.run(ask(ours, "greet", elicit=lambda params: {"text": params["message"][-9:]}))
            assert told == "greeting?, our name?", ours


CONTENTS = (
    "linked", "prompt welcome", "resource notes://all", "resource file:///etc/passwd",
    "template notes://{number}",
)  # fmt: skip
HIDDEN = "up+other:file:///etc/passwd"


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize("theirs", THEIRS)
def test_prompts_and_resources_pass_between_each_pair_of_revisions(behind: Behind, theirs: str) -> None:
    add(behind, theirs, *CONTENTS)
    for ours in SERVED:
        asyncio.run(use_contents(ours, asks=min(ours, version_of(theirs)) >= V2025_06_18))


async def use_contents(version: str, *, asks: bool) -> None:
    async with Client(stored=True, version=version, elicit={"value": "happy"}) as ours:
        assert [each["name"] for each in await ours.list_prompts()] == ["other_welcome"]
        assert [each["uri"] for each in await ours.list_resources()] == ["notes://all", HIDDEN]
        assert [each["uriTemplate"] for each in await ours.list_templates()] == ["notes://{number}"]
        (text, _) = (await ours.get_prompt("other_welcome", {"name": "Ada"}))["messages"]
        assert text["content"]["text"] == ("Welcome Ada, happy" if asks else "Welcome Ada")
        for uri, found in {"notes://all": "one, two", HIDDEN: "root:x", "notes://12": "note 12"}.items():
            (contents,) = await ours.read_resource(uri)
            assert (contents["uri"], contents["text"]) == (uri, found)
        with pytest.raises(RequestError):
            await ours.read_resource("secret://key")


@pytest.mark.parametrize("theirs", [V2025_11_25, V2026_07_28])
def test_completion_is_asked_at_the_server(behind: Behind, theirs: str) -> None:
    add(behind, theirs, *CONTENTS)

    async def run() -> tuple[list[str], list[str]]:
        async with Client(stored=True) as ours:
            prompt = {"type": "ref/prompt", "name": "other_welcome"}
            template = {"type": "ref/resource", "uri": "notes://{number}"}
            return (
                await ours.complete(prompt, "name", "A"),
                await ours.complete(template, "number", "1"),
            )

    assert asyncio.run(run()) == (["Ada"], ["1", "12"])


@pytest.mark.requirement("INT-62")
@pytest.mark.parametrize(("isolation", "opened"), [("session", 2), ("user", 1), ("shared", 1)])
def test_completions_of_two_clients_share_a_session_only_if_shared(
    behind: Behind, isolation: str, opened: int
) -> None:
    add(behind, V2025_11_25, *CONTENTS, isolation=isolation)

    async def run() -> int:
        async with Client(stored=True) as one, Client(stored=True) as other:
            for ours in (one, other, one):
                await ours.complete({"type": "ref/prompt", "name": "other_welcome"}, "name", "A")
            return len({kept.peer.session for kept in sessions._kept.values()})

    sessions._kept.clear()
    assert asyncio.run(run()) == opened


def test_links_lead_to_the_resources_of_their_server(behind: Behind) -> None:
    """URIs of two servers never collide, and those that are not published belong to their server."""
    first = add(behind, V2026_07_28, *CONTENTS)
    second = storing.save_upstream(actor=None, name="se_cond", url=behind.urls[V2025_11_25])
    refreshing.refresh(upstream=second, actor=None)
    second.refresh_from_db()
    done = importing.import_items(upstream=second, keys=CONTENTS, actor=None, publish=True)
    assert done.published == [
        "se_cond_linked", "se_cond_welcome", "up+se.cond:notes://all", "up+se.cond:file:///etc/passwd",
        "up+se.cond:notes://{number}",
    ]  # fmt: skip

    async def links(tool: str) -> list[str]:
        async with Client(stored=True) as ours:
            content = (await ours.call_tool(tool))["content"]
            return [each["uri"] for each in content]

    assert asyncio.run(links("other_linked")) == [
        "notes://all", "notes://3", HIDDEN, "up+other:secret://key", "https://example.com/",
    ]  # fmt: skip
    assert asyncio.run(links("se_cond_linked")) == [
        "up+se.cond:notes://all", "up+se.cond:notes://3", "up+se.cond:file:///etc/passwd",
        "up+se.cond:secret://key", "https://example.com/",
    ]  # fmt: skip
    assert storing.delete_upstream(upstream=first, actor=None) == len(CONTENTS)


@pytest.mark.parametrize("theirs", [V2025_11_25, V2026_07_28])
def test_page_of_a_tool_has_its_uri_here(behind: Behind, theirs: str) -> None:
    add(behind, theirs, "shown")

    async def listed() -> Any:
        async with Client(stored=True) as ours:
            (tool,) = await ours.list_tools()
            return tool.get("_meta")

    assert asyncio.run(listed()) is None, "the page is not published"
    # The URI here differs from the one at the server.
    prefixed = f"up+other:{PAGE}"
    row = Upstream.objects.get()
    names = {f"resource {PAGE}": prefixed}
    done = importing.import_items(
        upstream=row, keys=[f"resource {PAGE}"], names=names, actor=None, publish=True
    )
    assert done.published == [prefixed]

    async def read() -> Any:
        async with Client(stored=True) as ours:
            (contents,) = await ours.read_resource(prefixed)
            return contents

    assert asyncio.run(listed()) == {"ui": {"resourceUri": prefixed}}
    contents = asyncio.run(read())
    assert (contents["uri"], contents["text"]) == (prefixed, "<p>map</p>")
    assert contents["_meta"]["ui"]["csp"] == {"connectDomains": ["https://example.com"]}
