"""Reading a URL and resolving its host: refusals before any connection is opened (S13)."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.egress import EgressRefused, Policy, target
from mcp_app.egress.policy import ANY_PORT, networks
from mcp_app.egress.target import addresses, read, resolve_by_system
from tests.unit.egress.sites import Names

POLICY = Policy()
ANY = Policy(ports=ANY_PORT)


@pytest.mark.parametrize(
    ("url", "host", "authority"),
    [
        ("http://example.com/a?b=c", "example.com", "example.com"),
        ("HTTPS://EXAMPLE.com:443/", "example.com", "example.com"),
        ("https://example.com:8443/x", "example.com", "example.com:8443"),
        ("http://example.com:443/", "example.com", "example.com:443"),
        ("http://bücher.example/", "xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("http://8.8.8.8/", "8.8.8.8", "8.8.8.8"),
        ("http://[2606:4700::1111]:8080/", "2606:4700::1111", "[2606:4700::1111]:8080"),
        ("http://example.com#@127.0.0.1/", "example.com", "example.com"),
        ("http://example.com?@127.0.0.1/", "example.com", "example.com"),
    ],
)
def test_web_address_is_parsed_into_host_and_authority(url: str, host: str, authority: str) -> None:
    target = read(url, POLICY)
    assert (target.host, target.authority) == (host, authority)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *[
            (f"{scheme}:///etc/passwd", "http")
            for scheme in ("file", "ftp", "gopher", "dict", "data", "javascript")
        ],
        ("", "http"),
        ("example.com", "http"),
        ("//example.com/", "http"),
        ("file://example.com/", "http"),
        ("ws://example.com/", "http"),
        ("http://", "host"),
        ("http:///path", "host"),
        ("http:127.0.0.1/", "well-formed"),
        ("http://user@example.com/", "user name"),
        ("http://user:secret@example.com/", "user name"),
        ("http://example.com@127.0.0.1/", "user name"),
        ("http://example.com%40127.0.0.1/", "host"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http:\\\\127.0.0.1/", "backslash"),
        ("http://exa mple.com/", "space"),
        (" http://example.com/", "space"),
        ("http://example.com/\r\nHost: inside", "control"),
        ("http://example.com\r\n/", "control"),
        ("http://example.com/\x00", "control"),
        ("http://example.com/\ud800", "control"),
        *[(f"http://example.com:{port}/", "Port") for port in (0, 22, 25, 6379, 11211, 65536, 99999)],
        ("http://example.com:-80/", "Port"),
        ("http://example.com:eighty/", "well-formed"),
        ("http://example.com:80:80/", "well-formed"),
        ("http://0177.0.0.1/", "well-formed"),
        ("http://①②⑦.⓪.⓪.①/", "well-formed"),
        ("http://[fe80::1%25eth0]/", "well-formed"),
        ("http://[::1/", "well-formed"),
        ("http://-%2e/", "host"),
        ("http://exa$mple/", "host"),
        ("http://" + "a" * 64 + ".example/", "host"),
        ("http://" + "a." * 130 + "example/", "host"),
        ("http://example.com/" + "a" * 2_048, "longer"),
    ],
)
def test_invalid_web_address_is_refused_with_reason(url: str, said: str) -> None:
    with pytest.raises(EgressRefused, match=said) as refusal:
        read(url, POLICY)
    assert "secret" not in str(refusal.value)


@given(st.text(max_size=80), st.sampled_from(["", "http://", "https://", "http://example.com"]))
def test_arbitrary_text_is_parsed_safely_or_refused(text: str, start: str) -> None:
    try:
        target = read(start + text, POLICY)
    except EgressRefused:
        return
    assert target.port in POLICY.ports
    assert not set(target.authority) & set("@/\\ \r\n\x00")


@given(st.from_regex(target._PLAIN, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_plain_web_address_is_read_like_every_other(text: str) -> None:
    try:
        found = read(text, ANY)
    except EgressRefused:
        found = None
    try:
        url = httpx2.URL(text)
        wanted = (url.scheme, url.raw_host.decode(), url.port, url.raw_path.decode(), url.userinfo)
    except httpx2.InvalidURL:
        assert found is None
        return
    if found is not None:
        assert (found.scheme, found.host, found.stated_port, found.path, b"") == wanted


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://example.com/a/b?c=d&e=%20", "/a/b?c=d&e=%20"),
        ("http://example.com/a//b/", "/a//b/"),
        ("http://example.com/a/../b", "/b"),
        ("http://example.com/a/./b", "/a/b"),
        ("http://example.com/a/.hidden", "/a/.hidden"),
        ("http://example.com/a%2e%2e/b", "/a%2e%2e/b"),
        ('http://example.com/a?b"c', "/a?b%22c"),
        ("http://example.com/a#b", "/a"),
        ("http://example.com?b", "/?b"),
        ("http://example.com", "/"),
    ],
)
def test_path_is_sent_in_one_spelling(url: str, path: str) -> None:
    assert read(url, POLICY).path == path


@pytest.mark.parametrize(
    "host",
    [
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "127.1",
        "127.0.1",
        "0",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "192.168.0.1",
        "10.0.0.1",
    ],
)
async def test_every_spelling_of_private_host_is_refused(host: str) -> None:
    with pytest.raises(EgressRefused, match="public internet"):
        await addresses(read(f"http://{host}/", POLICY), POLICY, resolve_by_system)


@pytest.mark.parametrize(
    "answers",
    [
        [],
        ["127.0.0.1"],
        ["93.184.215.14", "127.0.0.1"],
        ["127.0.0.1", "93.184.215.14"],
        ["93.184.215.14", "2606:4700::1111", "::1"],
        ["93.184.215.14", "fe80::1%eth0"],
        ["93.184.215.14", "not an address"],
        ["93.184.215.14"] * 33,
    ],
)
async def test_name_with_any_non_public_address_is_refused(answers: list[str]) -> None:
    target = read("http://example.com/", POLICY)
    with pytest.raises(EgressRefused) as refusal:
        await addresses(target, POLICY, Names(example_com=[answers]))
    assert not any(answer in str(refusal.value) for answer in answers)


async def test_unknown_and_private_names_get_same_message() -> None:
    said = []
    for resolve in (Names(), Names(example_com=[["10.0.0.1"]])):
        with pytest.raises(EgressRefused) as refusal:
            await addresses(read("http://example.com/", POLICY), POLICY, resolve)
        said.append(str(refusal.value))
    assert said[0] == said[1]


async def test_public_addresses_are_deduplicated_in_order() -> None:
    resolve = Names(example_com=[["2606:4700::1111", "93.184.215.14", "93.184.215.14"]])
    found = await addresses(read("http://example.com/", POLICY), POLICY, resolve)
    assert found == ["2606:4700::1111", "93.184.215.14"]
    assert resolve.lookups == [("example.com", 80)]


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ("10.1.2.3", True),
        ("10.2.0.1", False),
        ("192.168.7.7", True),
        ("192.168.7.8", False),
        ("fd00::5", True),
        ("::ffff:10.1.2.3", False),
        ("64:ff9b::10.1.2.3", False),
        ("127.0.0.1", False),
    ],
)
async def test_allow_list_permits_exact_networks_only(answer: str, allowed: bool) -> None:
    policy = Policy(allow=networks(["10.1.0.0/16", "192.168.7.7", "fd00::/64"]))
    target = read("http://inside.example/", policy)
    resolve = Names(inside_example=[[answer]])
    if allowed:
        assert await addresses(target, policy, resolve) == [answer]
    else:
        with pytest.raises(EgressRefused):
            await addresses(target, policy, resolve)
