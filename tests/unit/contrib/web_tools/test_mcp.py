"""The web_scrape tool from address to text, against a loopback server that settings allow."""

from __future__ import annotations

import gzip

import pytest

from mcp_app import ToolError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.contrib.web_tools.mcp import web_scrape
from tests.unit.egress.sites import Site, page, redirect, serve


@pytest.fixture
def allow(settings):
    """Let the tool reach one site on loopback."""

    def allowed(site: Site, **more: object) -> str:
        settings.MCP_WEB_TOOLS = {"ALLOW": ["127.0.0.1"], "PORTS": [site.port], **more}
        return f"http://127.0.0.1:{site.port}"

    return allowed


HTML = b"<title>News</title><nav>menu</nav><p>Some <b>story</b> <a href=/more>more</a>"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("markdown", "# News\n\nSome **story** [more]({url}/more)"),
        ("text", "News\n\nSome story more"),
        ("html", '<title>News</title>\n<p>Some <b>story</b> <a href="{url}/more">more</a></p>'),
    ],
)
async def test_page_is_returned_in_requested_format(allow, form: str, expected: str) -> None:
    async with serve(page(gzip.compress(HTML), "Content-Encoding: gzip")) as site:
        url = allow(site)
        assert await web_scrape(url + "/news", form) == expected.format(url=url)


async def test_links_are_resolved_against_redirect_target(allow) -> None:
    async with serve(redirect("/deep/er/"), page(b"<a href=x>go</a>")) as site:
        url = allow(site)
        assert await web_scrape(url) == f"[go]({url}/deep/er/x)"


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/csv"])
async def test_non_html_text_is_returned_unchanged(allow, kind: str) -> None:
    async with serve(page(b'{"a": "<b>"}', kind=kind)) as site:
        assert await web_scrape(allow(site)) == '{"a": "<b>"}'


async def test_long_response_is_truncated(allow) -> None:
    async with serve(page(b"x" * 1_000, kind="text/plain")) as site:
        assert (await web_scrape(allow(site, MAX_CHARACTERS=10))).startswith("x" * 10 + "\n\n[Cut here")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page(b"gone", status="404 Not Found"), "HTTP status 404"),
        (page(b"oops", status="500 Internal Server Error"), "HTTP status 500"),
        (page(b"\x89PNG", kind="image/png"), "type that is read"),
        (redirect("http://169.254.169.254/latest/meta-data/"), "Port 80|public internet"),
        (redirect("file:///etc/passwd"), "http://"),
    ],
)
async def test_failed_fetch_raises_tool_error(allow, answer, said: str) -> None:
    async with serve(answer) as site:
        with pytest.raises(ToolError, match=said):
            await web_scrape(allow(site))


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://2130706433/", "ftp://x/", "nonsense"],
)
async def test_private_address_is_refused_by_default(url: str) -> None:
    with pytest.raises(ToolError):
        await web_scrape(url)


async def test_overly_complex_page_raises_tool_error(allow) -> None:
    async with serve(page(b"<p>x</p>" * 40_000)) as site:
        with pytest.raises(ToolError, match="too complex"):
            await web_scrape(allow(site, CONVERT_SECONDS=0.01))


def test_tool_is_annotated_open_world_with_format_enum() -> None:
    wire = registry.tools["web_scrape"].wire
    assert wire["annotations"] == {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": True}
    assert wire["inputSchema"]["required"] == ["url"]
    assert wire["inputSchema"]["properties"]["format"]["enum"] == ["markdown", "text", "html"]
    assert wire["inputSchema"]["properties"]["format"]["default"] == "markdown"
