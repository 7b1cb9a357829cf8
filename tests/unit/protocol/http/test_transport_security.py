from __future__ import annotations

import pytest

from mcp_app.protocol.errors import Forbidden, MisdirectedRequest
from mcp_app.protocol.http.transport_security import HostPolicy, is_forwarded, names_loopback

LOOPBACK = HostPolicy(loopback=True)
PUBLIC = HostPolicy(
    ["mcp.example.com", "port.example.com:8443", ".wild.example"],
    ["https://app.example.com", "http://dev.example.com:3000", "vscode-webview://abc"],
)


@pytest.mark.requirement("SEC-02")
@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"localhost:8000",
        b"LOCALHOST:8000",
        b"localhost.",
        b"localhost.:1",
        b"127.0.0.1",
        b"127.0.0.1:65535",
        b"[::1]",
        b"[::1]:8000",
        b"[0:0:0:0:0:0:0:1]:8000",
    ],
)
def test_loopback_host_is_allowed_on_any_port(host: bytes) -> None:
    LOOPBACK.check(host, None)


@pytest.mark.requirement("SEC-02")
@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b"evil.example",
        b"localhost.evil.example",
        b"evil.example:127.0.0.1",
        b"localhost..",
        b".localhost",
        b"localhost:",
        b"localhost:0",
        b"localhost:65536",
        b"localhost:99999999",
        b"localhost:80:80",
        b"localhost:+80",
        b"localhost:8 0",
        b" localhost",
        b"localhost ",
        b"localhost\x00",
        b"localhost,evil.example",
        b"localhost/",
        b"localhost#",
        b"localhost@evil.example",
        b"user@localhost",
        b"user:pass@localhost",
        b"local%68ost",
        b"localhost\xc2\xa0",
        b"lo\xc3\xa7alhost",
        b"127.1",
        b"127.0.0.2",
        b"0x7f.0.0.1",
        b"2130706433",
        b"0.0.0.0",
        b"::1",
        b"[::1",
        b"::1]",
        b"[::1]x",
        b"[[::1]]",
        b"[::2]",
        b"[::ffff:127.0.0.1]",
        b"[::1%25lo]",
        b"[127.0.0.1]",
        b"[]",
        b"http://localhost",
        b"a" * 10_000,
    ],
)
def test_non_loopback_host_is_misdirected(host: bytes | None) -> None:
    with pytest.raises(MisdirectedRequest) as caught:
        LOOPBACK.check(host, None)
    assert caught.value.http_status == 421


@pytest.mark.requirement("SEC-02")
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        (b"mcp.example.com", True),
        (b"MCP.Example.COM.", True),
        (b"mcp.example.com:444", True),
        (b"port.example.com:8443", True),
        (b"port.example.com", False),
        (b"port.example.com:444", False),
        (b"wild.example", True),
        (b"a.b.wild.example:1", True),
        (b"notwild.example", False),
        (b"example.com", False),
        (b"sub.mcp.example.com", False),
        (b"localhost", False),
        (b"127.0.0.1", False),
    ],
)
def test_public_server_accepts_only_configured_hosts(host: bytes, allowed: bool) -> None:
    if allowed:
        PUBLIC.check(host, None)
        return
    with pytest.raises(MisdirectedRequest):
        PUBLIC.check(host, None)


@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"localhost:8000", b"http://localhost:8000"),
        (b"localhost:8000", b"http://localhost:6274"),
        (b"localhost:8000", b"https://127.0.0.1"),
        (b"127.0.0.1:8000", b"http://[::1]:9"),
    ],
)
def test_loopback_origin_is_allowed_on_loopback_server(host: bytes, origin: bytes) -> None:
    LOOPBACK.check(host, origin)


@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize(
    "origin",
    [
        b"mcp.example.com",
        b"null",
        b"",
        b"http://evil.example",
        b"http://localhost.evil.example",
        b"http://localhost@evil.example",
        b"http://evil.example@localhost",
        b"http://localhost/",
        b"http://localhost:8000/path",
        b"http://localhost:8000, http://evil.example",
        b"http://localhost:0",
        b"http://localhost:",
        b"http:localhost",
        b"http:///localhost",
        b"//localhost",
        b"://localhost",
        b"file://",
        b"file://localhost",
        b"chrome-extension://localhost",
        b"javascript://localhost",
        b"http://127.1",
        b"http://[::1",
        b" http://localhost",
        b"http://localhost\x00",
        b"http://l\xc3\xb6calhost",
        b"x" * 60 + b"://localhost",
    ],
)
def test_foreign_origin_is_forbidden_on_loopback_server(origin: bytes) -> None:
    with pytest.raises(Forbidden) as caught:
        LOOPBACK.check(b"localhost:8000", origin)
    assert caught.value.http_status == 403


@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        (b"mcp.example.com", None, True),
        (b"mcp.example.com", b"https://mcp.example.com", True),
        (b"mcp.example.com", b"https://MCP.example.com:443", True),
        (b"mcp.example.com", b"http://mcp.example.com", True),
        (b"mcp.example.com:8443", b"https://mcp.example.com:8443", True),
        (b"mcp.example.com", b"https://mcp.example.com:8443", False),
        (b"mcp.example.com", b"https://app.example.com", True),
        (b"mcp.example.com", b"https://app.example.com:443", True),
        (b"mcp.example.com", b"http://app.example.com", False),
        (b"mcp.example.com", b"http://dev.example.com:3000", True),
        (b"mcp.example.com", b"http://dev.example.com", False),
        (b"mcp.example.com", b"vscode-webview://abc", True),
        (b"mcp.example.com", b"vscode-webview://abcd", False),
        (b"mcp.example.com", b"vscode-webview://mcp.example.com", False),
        (b"mcp.example.com", b"http://localhost:3000", False),
        (b"mcp.example.com", b"https://a.wild.example", False),
        (b"mcp.example.com", b"null", False),
    ],
)
def test_public_server_accepts_own_and_listed_origins(
    host: bytes, origin: bytes | None, allowed: bool
) -> None:
    if allowed:
        PUBLIC.check(host, origin)
        return
    with pytest.raises(Forbidden):
        PUBLIC.check(host, origin)


def test_loopback_origin_is_forbidden_for_public_host() -> None:
    both = HostPolicy(["mcp.example.com"], loopback=True)
    with pytest.raises(Forbidden):
        both.check(b"mcp.example.com", b"http://localhost:3000")


@pytest.mark.requirement("SEC-01", "SEC-02")
def test_wildcard_host_does_not_allow_rebound_origin() -> None:
    anyone = HostPolicy(["*"], ["https://app.example.com"], loopback=True)
    anyone.check(b"whatever.example", None)
    anyone.check(b"whatever.example", b"https://app.example.com")
    anyone.check(b"localhost:8000", b"http://localhost:8000")
    with pytest.raises(Forbidden):
        anyone.check(b"evil.example", b"http://evil.example")
    with pytest.raises(MisdirectedRequest):
        anyone.check(b"user@evil.example", None)


def test_default_policy_allows_nothing() -> None:
    with pytest.raises(MisdirectedRequest):
        HostPolicy().check(b"localhost", None)


@pytest.mark.parametrize("entry", ["", "http://a", "a/b", "a b", ".a:80", "a:0", "user@a"])
def test_unmatchable_host_entry_raises_value_error(entry: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        HostPolicy([entry])


@pytest.mark.parametrize("entry", ["", "a", "null", "*", "https://a/", "https://", "https://u@a"])
def test_unmatchable_origin_entry_raises_value_error(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host or origin"):
        HostPolicy([], [entry])


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"localhost", True),
        (b"LOCALHOST:8000", True),
        (b"127.0.0.1:1", True),
        (b"[::1]:8000", True),
        (b"localhost.", True),
        (b"localhost.evil.example", False),
        (b"mcp.example", False),
        (b"127.0.0.1.evil.example", False),
        (b"", False),
        (b"\xff", False),
    ],
)
def test_only_loopback_host_names_this_machine(host: bytes, expected: bool) -> None:
    assert names_loopback(host) is expected


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    "names",
    [
        (
            "nginx, Apache, HAProxy",
            "x-real-ip x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port",
        ),
        ("Traefik, Envoy", "x-forwarded-server x-forwarded-prefix x-envoy-external-address x-original-host"),
        (
            "load balancers",
            "x-forwarded-ssl x-forwarded-scheme x-forwarded x-cluster-client-ip x-amzn-trace-id",
        ),
        ("Cloudflare", "cf-connecting-ip cf-ray cf-visitor cf-ipcountry true-client-ip cdn-loop"),
        ("Fastly, Fly, Azure, Google", "fastly-client-ip fly-client-ip x-azure-clientip x-appengine-user-ip"),
        ("standards", "forwarded via"),
        ("others", "x-client-ip client-ip forwarded-for x-original-forwarded-for x-scheme front-end-https"),
    ],
    ids=lambda names: names[0],
)
def test_each_proxy_header_marks_request_as_forwarded(names: tuple[str, str]) -> None:
    """Each header alone is sufficient: a local proxy may add only one of them."""
    usual = (b"host", b"accept", b"content-type", b"user-agent", b"x-request-id", b"origin", b"mcp-method")
    assert not is_forwarded(usual)
    missed = [name for name in names[1].split() if not is_forwarded((*usual, name.encode()))]
    assert missed == []
