"""The typed form of ``settings.MCP``: all settings of the server with their defaults and limits."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from ipaddress import ip_network
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from mcp_app import upstream_commands
from mcp_app.protocol import scopes
from mcp_app.protocol.dialects import ALL, PRESENT, ROUTING
from mcp_app.protocol.http.transport_security import names_loopback
from mcp_app.protocol.messages.server import Server
from mcp_app.protocol.versions import SERVED
from mcp_app.upstream_commands import UpstreamCommand

# A little less than the length that Django requires for its secret key.
MIN_KEY = 32
MIN_WEIGHT, MAX_WEIGHT = 0.01, 100.0
# The maximum length of an issuer URL in the database.
MAX_ADDRESS = 255
MAX_SOCKET_PATH = 100
AUTH = ("loopback", "required", "external")
DOCUMENTS = ("auto", "on", "off")
SECOND_FACTOR = ("optional", "staff", "everybody")
# A scope as in RFC 6749 section 3.3. Challenges contain scopes in quotes.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the server.

    Unless a name states another unit, times are in seconds and sizes in bytes.
    """

    # Access.
    auth: str = "required"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    loopback: bool = False
    public_url: str = ""
    oauth: bool = False
    oauth_registration: bool = True
    # For each network of clients. 0 means no limit.
    oauth_registrations_per_hour: int = 20
    # "auto" announces documents if they can be fetched for any client, "on" always does, "off" accepts
    # none.
    oauth_documents: str = "auto"
    oauth_document_hosts: tuple[str, ...] = ("*",)
    oauth_redirect_uris: tuple[str, ...] = ("cursor://anysphere.cursor-mcp/oauth/callback",)
    api_keys: bool = True
    # The identity provider whose tokens are accepted if ``auth`` is "external".
    oauth_issuer: str = ""
    oauth_audience: tuple[str, ...] = ()
    oauth_jwks_url: str = ""
    # Maps scopes of the provider to the scopes of this server that they grant. The key "*" is for all tokens.
    oauth_scopes: dict[str, str] = field(default_factory=dict, hash=False)
    oauth_create_users: bool = True
    oauth_link_users: bool = False
    oauth_username_claim: str = "preferred_username"
    oauth_groups_claim: str = "groups"
    # Maps groups of the provider to Django groups.
    oauth_groups: dict[str, str] = field(default_factory=dict, hash=False)
    # The identity provider for logging in on the login page.
    login_issuer: str = ""
    login_client_id: str = ""
    login_client_secret: str = field(default="", repr=False)
    login_name: str = ""
    login_scopes: tuple[str, ...] = ("openid", "profile", "email")
    # Which users must have a second factor: nobody ("optional"), "staff" or "everybody".
    second_factor: str = "optional"
    # Private networks to which the server may connect.
    egress_allow: tuple[str, ...] = ()
    # The HTTP proxy for all other addresses. The URL may contain a password.
    egress_proxy: str = field(default="", repr=False)
    # Upstream servers over stdio: the commands by name, and the unix socket of the bridge that runs them.
    upstream_commands: dict[str, UpstreamCommand] = field(default_factory=dict, hash=False)
    upstream_socket: str = ""
    connect_page: bool = True
    metrics: bool = True
    http_sse: bool = True

    # The description of the server.
    server_name: str = "django-mcp"
    server_title: str = ""
    server_version: str = "0.1.0"
    instructions: str = ""
    versions: tuple[str, ...] = SERVED
    # Whether a call cancelled by its client ends with an error on its stream (CAN-02).
    answer_cancelled: bool = True
    # The tasks of 2025-11-25, where they are experimental. The tasks of 2026-07-28 cannot be disabled.
    core_tasks: bool = True

    # Whether definitions that known clients reject fail the checks and cannot be published.
    strict_schemas: bool = False

    # Deviations of early clients that are accepted.
    dialects: tuple[str, ...] = ALL
    routing_headers: str = PRESENT

    # Secrets that seal the state of calls with questions. The default is Django's secret keys.
    state_keys: tuple[str, ...] = ()

    # Stores.
    redis_url: str = ""
    upload_directory: str = ""
    # The file with a fault in edited code while earlier code is served. `manage.py up --reload` writes it.
    code_fault_file: str = ""
    resource_directories: tuple[str, ...] = ()

    # Limits of input.
    max_body_bytes: int = 4 * 1024 * 1024
    max_unknown_body_bytes: int = 16 * 1024
    body_seconds: float = 30.0
    max_json_depth: int = 64
    max_json_members: int = 10_000
    max_string_bytes: int = 1024 * 1024
    max_batch: int = 50
    max_sessions_per_principal: int = 1_000
    max_streams_per_principal: int = 5_000
    max_running_calls_per_principal: int = 100
    max_waiting_approvals_per_principal: int = 50
    max_open_background_calls_per_principal: int = 1_000
    max_kept_bytes_per_principal: int = 64 * 1024 * 1024
    max_kept_percent_per_principal: int = 25
    max_kept_percent: int = 80
    # This limit applies to the whole installation. 0 means no limit.
    max_running_background_calls_per_principal: int = 0
    # This limit applies to each worker.
    max_waiting_children: int = 8
    max_held_questions_per_principal: int = 4
    # "group=weight": how many calls of a member are started for each call of another person.
    background_weights: tuple[str, ...] = ()
    max_subscriptions: int = 100
    completions_per_minute: int = 600
    core_task_requests_per_minute: int = 6_000
    # While Redis is away, each web process admits this part of the rate of a limit.
    web_processes: int = 1
    wrong_keys_per_minute: int = 60
    api_requests_per_minute: int = 600
    api_refusals_per_minute: int = 60

    # Limits of output.
    max_result_bytes: int = 8 * 1024 * 1024
    # Longer results are cut, and the whole is stored for its caller. 0 means that results are never cut.
    max_result_tokens: int = 25_000
    max_result_storage_bytes_per_principal: int = 64 * 1024 * 1024
    max_stream_events: int = 1_000
    max_stream_bytes: int = 1024 * 1024
    # Some clients read only the first page of a list.
    page_size: int = 1_000
    progress_per_second: float = 10.0
    log_messages_per_call: int = 1_000
    state_bytes: int = 16 * 1024

    # Times.
    oauth_token_seconds: int = 3_600
    oauth_refresh_seconds: int = 2_592_000
    oauth_connection_seconds: int = 31_536_000
    grace_seconds: float = 0.1
    # The interval between comments on silent event streams, also used by ``stream_check_seconds``.
    keep_alive_seconds: float = 15.0
    stall_seconds: float = 30.0
    slow_poll_seconds: float = 5.0
    stream_max_seconds: float = 600.0
    stream_retry_ms: int = 1_000
    stream_ttl_seconds: int = 3_600
    # The time for which a finished call answers further requests with its idempotency key.
    idempotency_key_seconds: int = 86_400
    session_idle_seconds: int = 1_800
    session_max_seconds: int = 86_400
    session_recheck_seconds: float = 10.0
    tool_timeout_seconds: float = 60.0
    tool_timeout_max_seconds: float = 900.0
    client_request_seconds: float = 300.0
    task_ttl_seconds: int = 86_400
    task_poll_ms: int = 1_000
    state_seconds: int = 600
    # How long the whole of a cut result can be read. 0 means that it is not stored.
    result_seconds: int = 3_600
    sync_threads: int = 8

    # The record for operators.
    notify_arguments: bool = False
    message_log: bool = True
    message_log_days: int = 14
    message_log_rows: int = 1_000_000
    rollup_days: int = 90
    call_days: int = 7
    message_log_payload_bytes: int = 16 * 1024
    redacted_names: tuple[str, ...] = field(
        default=(
            "password",
            "passwd",
            "secret",
            "token",
            "api_key",
            "apikey",
            "authorization",
            "cookie",
            "credential",
            "private_key",
            "access_key",
            "session_key",
        )
    )

    @property
    def server(self) -> Server:
        """The description of this installation for clients and people."""
        return Server(
            self.server_name,
            self.server_version,
            title=self.server_title,
            instructions=self.instructions,
            website=self.public_url,
        )

    @property
    def stream_check_seconds(self) -> float:
        """Seconds between two checks of an open stream's credential, and two renewals of its lease."""
        return self.keep_alive_seconds

    @property
    def tombstone_seconds(self) -> int:
        """The lifetime of a tombstone in Redis, in seconds.

        The row of a session may record its end late, or never if that write was lost. Until the row looks
        idle, the session could be restored from it by mistake. A process that has missed the end renews the
        row as long as it trusts its own copy. The remaining 60 seconds are a margin.
        """
        return self.session_idle_seconds + math.ceil(self.session_recheck_seconds) + 60

    @property
    def weights(self) -> dict[str, float]:
        """The setting ``background_weights`` as a mapping of groups to weights."""
        return _weights(self.background_weights)


@lru_cache(maxsize=8)
def _weights(pairs: tuple[str, ...]) -> dict[str, float]:
    weights = {}
    for item in pairs:
        group, _, number = item.rpartition("=")
        try:
            weights[group] = float(number)
        except ValueError:
            group = ""
        if not group or not MIN_WEIGHT <= weights[group] <= MAX_WEIGHT:
            raise ImproperlyConfigured(
                f"settings.MCP['BACKGROUND_WEIGHTS'] has {item!r}: say 'group=weight' with a weight from "
                f"{MIN_WEIGHT:g} to {MAX_WEIGHT:g}."
            )
    return weights


def _convert(name: str, value: Any, hint: Any) -> Any:
    """Convert a setting's value to its declared type. Raise ImproperlyConfigured for a wrong type."""
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return tuple(value)
    elif hint == dict[str, UpstreamCommand]:
        try:
            return upstream_commands.read(value)
        except ValueError as error:
            raise ImproperlyConfigured(f"settings.MCP[{name.upper()!r}] {error}.") from None
    elif get_origin(hint) is dict and isinstance(value, dict):
        if all(isinstance(item, str) for pair in value.items() for item in pair):
            return dict(value)
    elif hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if value >= 0:
            return float(value)
        raise ImproperlyConfigured(f"settings.MCP[{name.upper()!r}] must not be negative, got {value!r}.")
    elif hint is int and isinstance(value, int) and not isinstance(value, bool):
        if value >= 0:
            return value
        raise ImproperlyConfigured(f"settings.MCP[{name.upper()!r}] must not be negative, got {value!r}.")
    elif hint in (str, bool) and isinstance(value, hint):
        return value
    kinds = {tuple: "a list of strings", dict: "a dict of strings"}
    expected = kinds[get_origin(hint)] if get_args(hint) else getattr(hint, "__name__", str(hint))
    raise ImproperlyConfigured(f"settings.MCP[{name.upper()!r}] must be {expected}, got {value!r}.")


def load(values: dict[str, Any]) -> Settings:
    """Build the settings from a ``settings.MCP`` dict. Raise ImproperlyConfigured with the wrong key."""
    hints = get_type_hints(Settings)
    names = {item.name for item in fields(Settings)}
    converted: dict[str, Any] = {}
    for key, value in values.items():
        name = key.lower()
        if name not in names or key != key.upper():
            known = ", ".join(sorted(item.upper() for item in names))
            raise ImproperlyConfigured(f"settings.MCP has no key {key!r}. Known keys: {known}.")
        converted[name] = _convert(name, value, hints[name])
    _check_chosen("AUTH", (converted.get("auth", "required"),), AUTH)
    _check_chosen("OAUTH_DOCUMENTS", (converted.get("oauth_documents", DOCUMENTS[0]),), DOCUMENTS)
    _check_chosen("SECOND_FACTOR", (converted.get("second_factor", SECOND_FACTOR[0]),), SECOND_FACTOR)
    _check_chosen("DIALECTS", converted.get("dialects", ()), ALL)
    _check_chosen("ROUTING_HEADERS", (converted.get("routing_headers", PRESENT),), ROUTING)
    _weights(converted.get("background_weights", ()))
    versions = converted.get("versions", SERVED)
    if not versions or not set(versions) <= set(SERVED):
        raise ImproperlyConfigured(f"settings.MCP['VERSIONS'] must name some of {', '.join(SERVED)}.")
    if any(len(key) < MIN_KEY for key in converted.get("state_keys", ())):
        raise ImproperlyConfigured(f"Each of settings.MCP['STATE_KEYS'] needs {MIN_KEY} characters or more.")
    made = Settings(**converted)
    if made.egress_proxy and not is_proxy(made.egress_proxy):
        # The value is not shown, because it may contain a password.
        raise ImproperlyConfigured("settings.MCP['EGRESS_PROXY'] must be like http://proxy.example:3128.")
    _check_provider(made)
    _check_bridge(made)
    return made


def _check_provider(settings: Settings) -> None:
    """Check that the identity provider's settings are complete and safe: its keys control access."""
    for name in ("oauth_issuer", "oauth_jwks_url", "login_issuer"):
        key, url = name.upper(), getattr(settings, name)
        if url and not _is_safe(url):
            raise ImproperlyConfigured(f"settings.MCP[{key!r}] must be an https address, got {url!r}.")
    for network in settings.egress_allow:
        try:
            ip_network(network)
        except ValueError:
            raise ImproperlyConfigured(
                f"settings.MCP['EGRESS_ALLOW'] has {network!r}, not a network."
            ) from None
    for name, stands_for in settings.oauth_scopes.items():
        if not _SCOPE.fullmatch(name):
            raise ImproperlyConfigured(
                f"settings.MCP['OAUTH_SCOPES'] has {name!r}, which is not a scope name."
            )
        _check_chosen("OAUTH_SCOPES", tuple(stands_for.split()), scopes.ALL)
    if settings.login_issuer and not settings.login_client_id:
        raise ImproperlyConfigured("settings.MCP['LOGIN_ISSUER'] is set: set LOGIN_CLIENT_ID, too.")
    if settings.login_issuer and "openid" not in settings.login_scopes:
        raise ImproperlyConfigured("settings.MCP['LOGIN_SCOPES'] must name 'openid', which asks who it is.")
    if settings.auth != "external":
        return
    if not settings.oauth_issuer:
        raise ImproperlyConfigured("settings.MCP['AUTH'] is 'external': set OAUTH_ISSUER to the provider's.")
    if not settings.oauth_audience and not settings.public_url:
        raise ImproperlyConfigured(
            "settings.MCP['AUTH'] is 'external': set PUBLIC_URL or OAUTH_AUDIENCE. They tell "
            "which of the provider's tokens are for this server."
        )


def _check_bridge(settings: Settings) -> None:
    """Check the socket of the bridge. The kernel limits the length of its path."""
    path = settings.upstream_socket
    if settings.upstream_commands and not path:
        raise ImproperlyConfigured("settings.MCP['UPSTREAM_COMMANDS'] is set: set UPSTREAM_SOCKET to a path.")
    if settings.upstream_commands and (not path.startswith("/") or len(path.encode()) > MAX_SOCKET_PATH):
        raise ImproperlyConfigured(
            f"settings.MCP['UPSTREAM_SOCKET'] must be an absolute path of at most {MAX_SOCKET_PATH} bytes."
        )


def is_proxy(url: str) -> bool:
    """Return True if ``url`` is an HTTP proxy's: scheme, host and port, possibly with credentials."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # Raises ValueError if the port is out of range.
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not set(url) & set("?# ") and parts.path in ("", "/")
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_safe(url: str) -> bool:
    """Return True if an answer of ``url`` is safe in transit: it uses https, or is on this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = len(url) < MAX_ADDRESS and not (set(url) & set("?#@\\ ")) and url.isprintable() and url.isascii()
    local = parts.scheme == "http" and names_loopback(parts.netloc.encode())
    return plain and bool(parts.hostname) and (parts.scheme == "https" or local)


def _check_chosen(key: str, chosen: tuple[str, ...], choices: tuple[str, ...]) -> None:
    unknown = sorted(set(chosen) - set(choices))
    if unknown:
        words = f"knows {', '.join(choices)}, not {', '.join(unknown)}"
        raise ImproperlyConfigured(f"settings.MCP[{key!r}] {words}.")


@lru_cache(maxsize=1)
def get() -> Settings:
    """Return the active settings. They are read once, and again after a test overrides ``MCP``.

    Under Django's test runner the Redis of the project is ignored, so that tests reach neither its clients
    nor its workers. A test that overrides ``MCP`` may set another Redis.
    """
    found = load(getattr(django_settings, "MCP", {}))
    if found.redis_url and found.redis_url == projects_redis() and _is_test_run():
        return replace(found, redis_url="")
    return found


@lru_cache(maxsize=1)
def projects_redis() -> str:
    """Return the Redis URL in the settings at the time of the first call, which is made at process start."""
    return str(getattr(django_settings, "MCP", {}).get("REDIS_URL", ""))


def _is_test_run() -> bool:
    # Django documents for all test runners that setup_test_environment() creates it, before any test
    # database.
    return hasattr(sys.modules.get("django.core.mail"), "outbox")


def forget(**_: Any) -> None:
    """Clear the cached settings, so that the next use reads them again."""
    get.cache_clear()


def _on_change(*, setting: str, **_: Any) -> None:
    if setting == "MCP":
        forget()


setting_changed.connect(_on_change)
