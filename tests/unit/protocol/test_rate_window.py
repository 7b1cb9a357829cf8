"""Counting in windows: exact within one, reset after it, with bounded memory."""

from __future__ import annotations

import pytest

from mcp_app.protocol.rate_window import RateWindow, client_network


def test_window_counts_per_key_and_resets() -> None:
    tally = RateWindow()
    assert tally.hit("a", 100.0) == (1, 60.0)
    assert tally.hit("a", 130.0) == (2, 30.0)
    assert tally.hit("b", 130.0) == (1, 60.0)
    assert tally.hit("a", 160.0) == (1, 60.0)


def test_oldest_keys_above_limit_are_forgotten() -> None:
    tally = RateWindow(keys=3)
    for number in range(100):
        tally.hit(f"k{number}", 1.0)
    assert len(tally._windows) == 3
    assert tally.hit("k99", 1.0)[0] == 2
    assert tally.hit("k0", 1.0)[0] == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("no address", "no address"),
        ("x" * 100, "x" * 64),
    ],
)
def test_ipv6_addresses_of_one_network_share_client(address: str, network: str) -> None:
    assert client_network(address) == network
