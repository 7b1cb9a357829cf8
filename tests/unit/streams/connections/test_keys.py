"""Names of Redis keys, and parsed addresses of connections."""

from __future__ import annotations

import ssl
from itertools import permutations
from pathlib import Path

import pytest

from mcp_app.streams.base import BadName
from mcp_app.streams.connections import keys, scripts
from mcp_app.streams.connections.client import RedisAddress


def test_keys_of_session_share_its_hash_tag() -> None:
    made = (*keys.session_keys("s-1"), *keys.stream_keys("s-1", "a"), keys.request_keys("s-1", "r").request)
    assert all(key.startswith("mcp:{s-1}:") for key in made)
    assert all(keys.is_known(key) for key in made if key != "mcp:{s-1}:")


@pytest.mark.parametrize("key", ["other", "mcp:{s}:", "mcp:{s}:unknown", "mcp:window:", "mcp:{s}:stream:A"])
def test_unlisted_key_is_not_known(key: str) -> None:
    assert not keys.is_known(key)


@pytest.mark.parametrize("name", ["", "a b", "}", "x" * 65, "a:b", "\n"])
def test_key_forging_request_id_is_rejected(name: str) -> None:
    with pytest.raises(BadName):
        keys.request_keys("s", name)


@pytest.mark.parametrize("key", ["plain/user:1", "", "a b", "x" * 200, "\ud800", "{x}"])
def test_arbitrary_text_becomes_distinct_known_window_key(key: str) -> None:
    assert keys.is_known(keys.window_key(key))
    assert keys.is_known(keys.places_key(key))
    assert keys.window_key(key) != keys.window_key(key + "2")


def test_no_channel_is_prefix_of_another() -> None:
    channels = [keys.Channels(number) for number in (0, 1, 10)]
    found = [each.wake for each in channels] + [each.topic for each in channels]
    assert not [pair for pair in permutations(found, 2) if pair[0].startswith(pair[1])]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", ("h", 6379, "", "", "", 0)),
        ("redis://:p%40ss@127.0.0.1:7000/3", ("127.0.0.1", 7000, "", "", "p@ss", 3)),
        ("redis://u:p@h:1/0", ("h", 1, "", "u", "p", 0)),
        ("unix:///run/r.sock?db=2", ("localhost", 6379, "/run/r.sock", "", "", 2)),
    ],
)
def test_address_is_parsed(url: str, expected: tuple[object, ...]) -> None:
    found = RedisAddress.parse(url)
    assert (found.host, found.port, found.path, found.username, found.password, found.database) == expected
    assert found.tls is None
    assert "p@ss" not in repr(found)


def test_tls_address_verifies_certificates_unless_disabled() -> None:
    strict = RedisAddress.parse("rediss://h").tls
    loose = RedisAddress.parse("rediss://h?ssl_cert_reqs=none").tls
    assert strict is not None
    assert loose is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert loose.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("url", ["", "http://h", "h:6379"])
def test_non_redis_address_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="one Redis"):
        RedisAddress.parse(url)


def test_every_script_file_is_loaded_and_starts_with_comment() -> None:
    files = sorted(Path(scripts.__file__).parent.glob("lua/*.lua"))
    sources = "\n".join(script.source for script in scripts.ALL)
    assert len(files) == len(scripts.ALL) + 1
    for file in files:
        assert file.read_text().startswith("-- ")
        assert file.read_text() in sources
