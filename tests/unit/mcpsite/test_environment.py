"""Environment settings: allowed values, their meaning, and rejection of invalid ones."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from mcpsite import databases, environment
from mcpsite.environment import WrongSettings, read
from mcpsite.processes import data_folder

NAMES = (
    "HOST", "PORT", "DATA_DIR", "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DEBUG", "PUBLIC_URL",
    "ALLOWED_HOSTS", "ALLOWED_ORIGINS", "TRUSTED_PROXIES", "WEB_PROCESSES",
    "WORKER_CONCURRENCY", "WORKER_QUEUES", "MCP_AUTH", "DEMO", "CONNECT_PAGE", "METRICS", "HTTP_SSE",
    "STRICT_SCHEMAS", "LOG_FORMAT",
    "MESSAGE_LOG_DAYS", "MESSAGE_LOG_ROWS", "MCP_APPS", "MCP_APPS_PATH",
    "OAUTH", "OAUTH_REGISTRATION", "OAUTH_REGISTRATIONS_PER_HOUR", "OAUTH_DOCUMENTS", "OAUTH_DOCUMENT_HOSTS",
    "OAUTH_REDIRECT_URIS", "PAGE_SIZE", "EGRESS_PROXY",
    "API_KEYS", "OAUTH_ISSUER", "OAUTH_AUDIENCE", "OAUTH_JWKS_URL", "OAUTH_SCOPES", "OAUTH_CREATE_USERS",
    "OAUTH_LINK_USERS", "OAUTH_USERNAME_CLAIM", "OAUTH_GROUPS_CLAIM", "OAUTH_GROUPS", "EGRESS_ALLOW",
    "LOGIN_ISSUER", "LOGIN_CLIENT_ID", "LOGIN_CLIENT_SECRET", "LOGIN_NAME", "LOGIN_SCOPES",
    "SECOND_FACTOR", "EMAIL_URL", "EMAIL_FROM", "NOTIFY_ARGUMENTS", "UPSTREAM_COMMANDS", "UPSTREAM_SOCKET",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def set_all(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_defaults_are_loopback_sqlite_without_credentials() -> None:
    settings = read()
    assert (settings.host, settings.port, settings.auth, settings.web_processes) == (
        "127.0.0.1",
        8000,
        "loopback",
        1,
    )
    assert settings.data_dir == environment.BASE_DIR / "var"
    assert settings.hosts == ("localhost", "127.0.0.1", "[::1]")
    assert settings.base_url == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ({}, 1_000_000),
        ({"DATABASE_URL": "postgresql://u@h/n"}, 10_000_000),
        ({"DATABASE_URL": "postgresql://u@h/n", "MESSAGE_LOG_ROWS": "5"}, 5),
        ({"MESSAGE_LOG_ROWS": "0"}, 0),
    ],
)
def test_message_log_row_default_depends_on_database(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], rows: int
) -> None:
    set_all(monkeypatch, values)
    assert read().log_rows == rows


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"HOST": "192.0.2.7", "PORT": "9000"}, "http://192.0.2.7:9000"),
        ({"HOST": "0.0.0.0", "PUBLIC_URL": "https://mcp.example.com"}, "https://mcp.example.com"),
        ({"HOST": "0.0.0.0", "ALLOWED_HOSTS": "mcp.example.com"}, ""),
        ({"ALLOWED_HOSTS": "mcp.example.com"}, ""),
    ],
)
def test_client_url_is_empty_unless_valid_for_all_clients(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], told: str
) -> None:
    set_all(monkeypatch, values)
    assert read().client_url == told


def test_every_setting_has_remedy() -> None:
    assert (
        set(environment.REMEDIES)
        == {name.upper() for name in environment.Environment.model_fields}
        == set(NAMES)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("DEBUG", "maybe"),
        ("WEB_PROCESSES", "0"),
        ("WORKER_CONCURRENCY", "-1"),
        ("WORKER_QUEUES", "celery,a b"),
        ("WORKER_QUEUES", ","),
        ("MCP_AUTH", "none"),
        ("DATABASE_URL", "mysql://user@host/name"),
        ("DATABASE_URL", "postgresql://user@host"),
        ("DATABASE_URL", "postgresql://user@host:port/name"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://a:1,b:2/0"),
        ("REDIS_URL", "redis+sentinel://a:26379/0/master"),
        ("SECRET_KEY", "short"),
        ("PUBLIC_URL", "mcp.example.com"),
        ("PUBLIC_URL", "https://mcp.example.com/mcp"),
        ("PUBLIC_URL", "https://user@mcp.example.com"),
        ("PUBLIC_URL", "https://mcp.example.com:99999"),
        ("PUBLIC_URL", "https://münchen.example"),
        ("PUBLIC_URL", "https://mcp.example.com?x=1"),
        ("PUBLIC_URL", "https://"),
        ("PUBLIC_URL", "https://:8000"),
        ("PUBLIC_URL", "https://[::1"),
        ("ALLOWED_HOSTS", "good.example.com,https://bad.example.com"),
        ("ALLOWED_HOSTS", "*"),
        ("ALLOWED_ORIGINS", "app.example.com"),
        ("TRUSTED_PROXIES", "everybody"),
        ("OAUTH_DOCUMENTS", "maybe"),
        ("OAUTH_REGISTRATIONS_PER_HOUR", "-1"),
        ("PAGE_SIZE", "0"),
        ("PAGE_SIZE", "all"),
        ("EGRESS_PROXY", "proxy.example:3128"),
        ("UPSTREAM_COMMANDS", "npx"),
        ("UPSTREAM_COMMANDS", '{"files": "npx"}'),
        ("UPSTREAM_COMMANDS", '{"files": {"command": []}}'),
        ("UPSTREAM_COMMANDS", '{"files": {"command": ["npx"], "shell": true}}'),
        ("EGRESS_PROXY", "socks5://proxy.example:1080"),
        ("EGRESS_PROXY", "http://proxy.example:99999"),
        ("EGRESS_PROXY", "http://[::1"),
        ("EGRESS_PROXY", "http://proxy.example/proxy.pac"),
    ],
)
def test_invalid_value_is_one_line_with_setting_and_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettings) as caught:
        read()
    text = str(caught.value)
    assert text.startswith(f"Wrong setting: {name} ")
    assert environment.REMEDIES[name] in text
    assert "\n" not in text


def test_each_invalid_value_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"PORT": "x", "MCP_AUTH": "y"})
    with pytest.raises(WrongSettings) as caught:
        read()
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.requirement("AUTH-43")
@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        (None, ("*",)),
        ("*", ("*",)),
        # An empty list of hosts differs from accepting any host.
        ("", ()),
        (" ", ()),
        ("claude.ai, vscode.dev", ("claude.ai", "vscode.dev")),
    ],
)
def test_document_hosts_default_to_any_host(
    monkeypatch: pytest.MonkeyPatch, value: str | None, hosts: tuple[str, ...]
) -> None:
    if value is not None:
        monkeypatch.setenv("OAUTH_DOCUMENT_HOSTS", value)
    assert read().oauth_document_hosts == hosts


def test_rejected_secret_is_not_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"SECRET_KEY": "hunter2", "DATABASE_URL": "mysql://user:hunter3@host/name"}
    set_all(monkeypatch, {**wrong, "EGRESS_PROXY": "ftp://user:hunter4@proxy.example"})
    with pytest.raises(WrongSettings) as caught:
        read()
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "mcp.example.com"])
def test_public_bind_without_credentials_is_rejected(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    set_all(monkeypatch, {"HOST": host, "MCP_AUTH": "loopback", "PUBLIC_URL": "https://mcp.example.com"})
    with pytest.raises(WrongSettings, match="MCP_AUTH=loopback accepts every client"):
        read()


def test_wildcard_bind_requires_public_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    with pytest.raises(WrongSettings, match="set PUBLIC_URL"):
        read()


@pytest.mark.parametrize(
    ("values", "auth", "hosts"),
    [
        ({"HOST": "::1"}, "loopback", ("localhost", "127.0.0.1", "[::1]")),
        ({"HOST": "127.0.0.1", "MCP_AUTH": "required"}, "required", ("localhost", "127.0.0.1", "[::1]")),
        ({"HOST": "192.0.2.7"}, "required", ("192.0.2.7",)),
        (
            {"HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example, b.example"},
            "required",
            ("a.example", "b.example"),
        ),
        ({"HOST": "0.0.0.0", "PUBLIC_URL": "https://mcp.example.com:8443"}, "required", ("mcp.example.com",)),
        ({"HOST": "::", "PUBLIC_URL": "http://[2001:db8::1]"}, "required", ("[2001:db8::1]",)),
    ],
)
def test_bind_address_determines_auth_and_allowed_hosts(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], auth: str, hosts: tuple[str, ...]
) -> None:
    set_all(monkeypatch, values)
    settings = read()
    assert (settings.auth, settings.hosts) == (auth, hosts)


def test_postgresql_url_becomes_connection_parameters() -> None:
    found = databases.from_url("postgres://user:p%40ss@db.example:6432/name?sslmode=require")
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"], found["NAME"]) == (
        "user", "p@ss", "db.example", "6432", "name",
    )  # fmt: skip
    assert found["OPTIONS"]["sslmode"] == "require"


def test_postgresql_url_accepts_socket_folder_as_host() -> None:
    assert databases.from_url("postgresql://mcp@/name?host=/run/db")["HOST"] == "/run/db"


def test_sqlite_options_use_immediate_transactions_and_wal() -> None:
    options = databases.sqlite(Path("db.sqlite3"))["OPTIONS"]
    assert (options["transaction_mode"], options["timeout"]) == ("IMMEDIATE", 20)
    assert "journal_mode=WAL" in options["init_command"]


@pytest.mark.parametrize(
    ("redis", "broker"),
    [
        ("", "memory://"),
        ("redis://:secret@127.0.0.1:6379/0", "redis://:secret@127.0.0.1:6379/0"),
        ("unix:///run/redis.sock?db=1", "redis+socket:///run/redis.sock?virtual_host=1"),
    ],
)
def test_broker_url_translates_redis_url_for_celery(redis: str, broker: str) -> None:
    assert environment.broker_url(redis) == broker


def test_data_folder_is_private_to_owner(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    data_folder.prepare_data_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_unusable_data_folder_is_named_with_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongSettings, match=r"Cannot write to the data folder .*Set DATA_DIR to a folder"):
        data_folder.prepare_data_dir(tmp_path / "file" / "data")


def test_generated_secret_key_is_private_and_same_for_concurrent_readers(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    keys: list[str] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        keys.append(data_folder.stored_secret_key(path))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert len(keys[0]) >= 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_running_redis_url_is_found_only_while_its_process_lives(tmp_path: Path) -> None:
    environment.remember_redis_url(tmp_path, "redis://:secret@127.0.0.1:1/0")
    assert environment.running_redis_url(tmp_path) == ""
    (tmp_path / "redis.pid").write_text(f"{os.getpid()}\n")
    assert environment.running_redis_url(tmp_path) == "redis://:secret@127.0.0.1:1/0"
    assert stat.S_IMODE((tmp_path / "redis.url").stat().st_mode) == 0o600
    (tmp_path / "redis.pid").write_text("99999999\n")
    assert environment.running_redis_url(tmp_path) == ""


def test_postgresql_connect_timeout_is_below_three_seconds() -> None:
    options = databases.from_url("postgresql://u@h/db")["OPTIONS"]
    # R29: pages are refused within 3 s as well, and each request opens a connection.
    assert options["connect_timeout"] < 3
