"""Redis addresses: one server, without Sentinel and Cluster."""

from __future__ import annotations

import pytest

from mcp_app.streams.connections.client import RedisAddress, address_fault


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://localhost",
        "redis://localhost:6379/0",
        "redis://:pass,word@redis.example.com:6379/1",
        "redis://user:p%2Cw@[::1]:6379/0?ssl_cert_reqs=none",
        "rediss://redis.example.com:6380",
        "unix:///run/a,b.sock?db=1",
    ],
)
def test_address_of_one_redis_is_accepted(url: str) -> None:
    assert address_fault(url) == ""
    RedisAddress.parse(url)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("redis://a:1,b:2/0", "names several addresses"),
        ("redis://:secret@a,b/0", "names several addresses"),
        ("rediss://a:1,b:2,c:3", "names several addresses"),
        ("redis://a:port/0", "port that is not a number"),
        ("redis+sentinel://a:26379/0/master", "no Sentinel, no Cluster"),
        ("redis+cluster://a:7000", "no Sentinel, no Cluster"),
        ("http://a", "is not the address of one Redis"),
    ],
)
def test_unsupported_address_is_rejected_with_reason(url: str, fault: str) -> None:
    """Several addresses must not be reduced to the first, nor fail only on use."""
    assert fault in address_fault(url)
    with pytest.raises(ValueError, match=r"REDIS_URL .*") as refused:
        RedisAddress.parse(url)
    assert "secret" not in str(refused.value)
