"""Classification of addresses as public: the table of the server-side fetch promise (S13)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.egress.addresses import is_public, parse

PUBLIC_4 = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.0.1",
    "172.32.0.1",
    "223.255.255.255",
    "198.17.255.255",
    "198.20.0.0",
]

INSIDE_4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
]

INSIDE_6 = [
    "::",
    "::1",
    "100::1",
    "64:ff9b:1::1",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:808:8:800::",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff0e::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "1000::1",
    "::2",
    "::ffff:0:127.0.0.1",
]


def mapped(inner: str) -> str:
    return f"::ffff:{inner}"


def compatible(inner: str) -> str:
    return f"::{inner}"


def translated(inner: str) -> str:
    return f"::ffff:0:{inner}"


def nat64(inner: str) -> str:
    return f"64:ff9b::{inner}"


def six_to_four(inner: str) -> str:
    return str(ipaddress.IPv6Address(0x2002 << 112 | int(ipaddress.IPv4Address(inner)) << 80 | 1))


def teredo_server(inner: str) -> str:
    client = ~int(ipaddress.IPv4Address("8.8.8.8")) & 0xFFFFFFFF
    return str(ipaddress.IPv6Address(0x20010000 << 96 | int(ipaddress.IPv4Address(inner)) << 64 | client))


def teredo_client(inner: str) -> str:
    server = int(ipaddress.IPv4Address("8.8.8.8"))
    client = ~int(ipaddress.IPv4Address(inner)) & 0xFFFFFFFF
    return str(ipaddress.IPv6Address(0x20010000 << 96 | server << 64 | client))


def isatap(inner: str) -> str:
    return f"2600:1f00::5efe:{inner}"


FORMS = [mapped, compatible, translated, nat64, six_to_four, teredo_server, teredo_client, isatap]


@pytest.mark.parametrize(
    "address", [*PUBLIC_4, "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "2620:fe::fe"]
)
def test_public_internet_address_is_public(address: str) -> None:
    assert is_public(address)
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [*INSIDE_4, *INSIDE_6])
def test_non_public_address_is_not_public(address: str) -> None:
    assert not is_public(address)
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("inner", INSIDE_4)
def test_ipv6_embedded_private_address_is_not_public(form, inner: str) -> None:
    assert not is_public(form(inner))


@pytest.mark.parametrize("form", FORMS)
def test_ipv6_embedded_public_address_is_public(form) -> None:
    assert is_public(form("8.8.8.8"))


@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::127.0.0.1",
        "::7f00:1",
        "0:0:0:0:0:ffff:7f00:1",
    ],
)
def test_addresses_misclassified_by_is_global_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "0177.0.0.1",
        "0x7f.1",
        "2130706433",
        "127.1",
        "①②⑦.⓪.⓪.①",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "8.8.8.8%1",
        "[::1]",
        " 8.8.8.8",
        "8.8.8.8\n",
        "8.8.8.8:80",
        "8.8.8",
        "٨.8.8.8",
    ],
)
def test_non_canonical_spelling_is_not_an_address(text: str) -> None:
    assert parse(text) is None
    assert not is_public(text)


@given(st.ip_addresses())
def test_address_local_by_standard_library_is_never_public(address) -> None:
    local = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    wrapped = isinstance(address, ipaddress.IPv6Address) and bool(address.ipv4_mapped or address.sixtofour)
    assert not (is_public(address) and local and not wrapped)


@given(st.text(max_size=60))
def test_arbitrary_text_never_raises(text: str) -> None:
    assert is_public(text) in (True, False)
