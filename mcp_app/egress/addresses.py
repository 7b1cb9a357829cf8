"""The check for public internet addresses.

``ipaddress.is_global`` is not enough: it is True for loopback written as NAT64, 6to4 or IPv4-compatible
addresses, for multicast and for site-local addresses. Here an address is public only if every check agrees.
An IPv6 address that contains an IPv4 address is public only if the IPv4 address is public as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# The IANA special-purpose registry, and 168.63.129.16, at which one cloud serves its virtual machines.
_DENIED_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip

# IANA assigns addresses for internet use from 2000::/3 only. All other addresses are refused without a list:
# loopback, unique local, link-local, site-local, multicast, discard, local NAT64 (64:ff9b:1::/48), SRv6.
_UNICAST_6 = IPv6Network("2000::/3")
_DENIED_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))

# The last 32 bits here are an IPv4 address: compatible, mapped, translated (RFC 2765), NAT64 (RFC 6052).
_CARRIES_4_LAST = tuple(
    IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP_MARKS = (0x00005EFE, 0x02005EFE)


def parse(text: str) -> Address | None:
    """Return the address in ``text``, or None if it is not strictly spelled or has a zone id."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


def is_public(address: str | Address) -> bool:
    """Return True if a packet to ``address`` can only reach the public internet. In doubt, return False."""
    parsed = parse(str(address))
    if parsed is None:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed in _SIX_TO_FOUR or parsed in _TEREDO or any(parsed in network for network in _CARRIES_4_LAST):
        return all(_is_public_4(inner) for inner in _carried(parsed))
    if parsed not in _UNICAST_6 or any(parsed in network for network in _DENIED_6):
        return False
    return parsed.is_global and all(_is_public_4(inner) for inner in _carried(parsed))


def _is_public_4(address: IPv4Address) -> bool:
    # The standard library's check applies as well, so that a newer Python can only deny more.
    return address.is_global and not any(address in network for network in _DENIED_4)


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield each IPv4 address that a gateway may extract from ``address``."""
    bits = int(address)
    if address in _SIX_TO_FOUR:
        yield IPv4Address(bits >> 80 & 0xFFFFFFFF)
    elif address in _TEREDO:
        yield IPv4Address(bits >> 64 & 0xFFFFFFFF)
        yield IPv4Address(~bits & 0xFFFFFFFF)
    elif any(address in network for network in _CARRIES_4_LAST) or bits >> 32 & 0xFFFFFFFF in _ISATAP_MARKS:
        yield IPv4Address(bits & 0xFFFFFFFF)
