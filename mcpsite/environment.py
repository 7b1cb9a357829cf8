"""Typed settings from environment variables. This module does not import Django."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from mcpsite import databases, mail_environment, provider_environment
from mcpsite.processes import upstream_environment

PACKAGE = Path(__file__).resolve().parent
# The folder of the clone. If installed from a wheel, it is the working directory, because files of an
# installation must not be placed among the packages.
BASE_DIR = PACKAGE.parent if (PACKAGE.parent / "manage.py").exists() else Path.cwd()
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

# The remedies for wrong values. They are printed after the problem.
REMEDIES = {
    "HOST": "an address of this machine, for example 127.0.0.1",
    "PORT": "a number from 1 to 65535, for example 8000",
    "DATA_DIR": "a folder you may write to",
    "DATABASE_URL": "postgresql://user:password@host:5432/name, or leave it unset for SQLite",
    "REDIS_URL": "redis://host:6379/0, rediss://… or unix:///path, or leave it unset for the embedded one",
    "SECRET_KEY": "at least 32 characters, or leave it unset to have one generated",
    "DEBUG": "on or off",
    "PUBLIC_URL": "the address clients use, without a path, for example https://mcp.example.com",
    "ALLOWED_HOSTS": "host names separated by commas, for example mcp.example.com",
    "ALLOWED_ORIGINS": "origins separated by commas, for example https://app.example.com",
    "TRUSTED_PROXIES": "addresses or networks separated by commas, for example 10.0.0.0/8",
    "WEB_PROCESSES": "a number from 1 to 64",
    "WORKER_CONCURRENCY": "a number from 1 to 64",
    "WORKER_QUEUES": "queue names separated by commas, for example celery,slow",
    "MCP_AUTH": "loopback, required or external",
    "OAUTH": "on or off",
    "OAUTH_REGISTRATION": "on or off",
    "OAUTH_REGISTRATIONS_PER_HOUR": "a number of new clients, for example 20, or 0 for no limit",
    "OAUTH_DOCUMENTS": "auto, on or off",
    "OAUTH_DOCUMENT_HOSTS": "host names separated by commas, for example claude.ai,vscode.dev, or * for any",
    "OAUTH_REDIRECT_URIS": "whole addresses separated by commas, for example myapp://oauth/callback",
    **provider_environment.REMEDIES,
    **mail_environment.REMEDIES,
    **upstream_environment.REMEDIES,
    "DEMO": "on or off",
    "MCP_APPS": "names of Django apps separated by commas, each installed or in the folder of MCP_APPS_PATH",
    "MCP_APPS_PATH": "the folder that your apps are in",
    "CONNECT_PAGE": "on or off",
    "METRICS": "on or off",
    "LOG_FORMAT": "text or json",
    "HTTP_SSE": "on or off",
    "STRICT_SCHEMAS": "on or off",
    "PAGE_SIZE": "a number of entries from 1 to 10000, for example 1000",
    "MESSAGE_LOG_DAYS": "a number of days from 1 to 3650, for example 14",
    "MESSAGE_LOG_ROWS": "a number of messages, for example 1000000, or 0 for no limit",
}

Names = Annotated[tuple[str, ...], NoDecode]


class WrongSettings(Exception):
    """Raised for invalid settings. The text has one line with the remedy for each."""


class Environment(
    mail_environment.MailEnvironment,
    provider_environment.ProviderEnvironment,
    upstream_environment.UpstreamEnvironment,
):
    """The settings of one installation. Each is read from the environment variable with its name."""

    model_config = SettingsConfigDict(
        case_sensitive=False, frozen=True, env_ignore_empty=True, extra="ignore"
    )

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)
    data_dir: Path = Path("var")
    database_url: str = ""
    redis_url: str = ""
    secret_key: str = Field("", repr=False)
    debug: bool = False
    public_url: str = ""
    allowed_hosts: Names = ()
    allowed_origins: Names = ()
    trusted_proxies: Names = ()
    web_processes: int = Field(1, ge=1, le=64)
    worker_concurrency: int = Field(2, ge=1, le=64)
    worker_queues: Names = ("celery",)
    mcp_auth: Literal["", "loopback", "required", "external"] = ""
    oauth: bool = True
    oauth_registration: bool = True
    oauth_registrations_per_hour: int = Field(20, ge=0)
    oauth_documents: Literal["auto", "on", "off"] = "auto"
    oauth_document_hosts: Names = ("*",)
    oauth_redirect_uris: Names = ()
    demo: bool = True
    mcp_apps: Names = ()
    mcp_apps_path: str = ""
    connect_page: bool = True
    metrics: bool = True
    log_format: Literal["text", "json"] = "text"
    http_sse: bool = True
    strict_schemas: bool = False
    page_size: int = Field(1_000, ge=1, le=10_000)
    message_log_days: int = Field(14, ge=1, le=3650)
    message_log_rows: int | None = Field(None, ge=0)

    @field_validator(
        "allowed_hosts",
        "allowed_origins",
        "trusted_proxies",
        "worker_queues",
        "mcp_apps",
        "oauth_document_hosts",
        "oauth_redirect_uris",
        mode="before",
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("worker_queues")
    @classmethod
    def _queues(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name) for name in value):
            raise ValueError("contains an invalid queue name")
        return value

    @field_validator("mcp_apps_path")
    @classmethod
    def _folder_of_apps(cls, value: str) -> str:
        folder = Path(os.path.normpath(BASE_DIR / Path(value).expanduser()))
        if value and not folder.is_dir():
            raise ValueError(f"is {value!r}, which is not a folder")
        return str(folder) if value else ""

    @field_validator("mcp_apps")
    @classmethod
    def _named_apps(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(f"has {name!r}, which is not the name of an app")
        return value

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return Path(os.path.normpath(BASE_DIR / value.expanduser()))

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: str) -> str:
        if value:
            databases.from_url(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, value: str) -> str:
        from mcp_app.streams.connections.client import address_fault  # Loads the Redis library.

        if value and (fault := address_fault(value)):
            raise ValueError(fault)
        return value

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, value: str) -> str:
        if value and len(value) < 32:
            raise ValueError(f"is only {len(value)} characters long")
        return value

    @field_validator("public_url")
    @classmethod
    def _public(cls, value: str) -> str:
        if value and not _is_origin(value.rstrip("/")):
            raise ValueError(f"is {value!r}")
        return value.rstrip("/")

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if "/" in host or "@" in host or host == "*":
                raise ValueError(f"has {host!r}, which is not one host name")
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            parts = urlsplit(origin)
            if not parts.scheme or not parts.netloc or parts.path or parts.query:
                raise ValueError(f"has {origin!r}, which is not an origin")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise ValueError(f"has {network!r}, which is neither an address nor a network") from None
        return value

    @model_validator(mode="after")
    def _safe_to_expose(self) -> Environment:
        """Refuse public addresses that give everyone access or whose host name is unknown (S7)."""
        if self.auth == "external" and not self.oauth_issuer:
            raise ValueError("MCP_AUTH=external accepts tokens of an identity provider: set OAUTH_ISSUER.")
        if self.auth == "external" and not (self.oauth_audience or self.client_url):
            raise ValueError(
                "MCP_AUTH=external accepts tokens for this server only: set PUBLIC_URL, or OAUTH_AUDIENCE."
            )
        if self.login_issuer and not self.login_client_id:
            raise ValueError("LOGIN_ISSUER is where people log in: set LOGIN_CLIENT_ID, too.")
        if self.is_loopback:
            return self
        if self.mcp_auth == "loopback":
            raise ValueError(
                f"MCP_AUTH=loopback accepts every client, but other machines can reach HOST={self.host}: "
                "set MCP_AUTH=required or external, or HOST=127.0.0.1."
            )
        if not self.allowed_hosts and not self.public_url and self.listens_everywhere:
            raise ValueError(
                f"HOST={self.host} can be reached from other machines under names this server does not know: "
                "set PUBLIC_URL (for example https://mcp.example.com) or ALLOWED_HOSTS."
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can connect to the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def listens_everywhere(self) -> bool:
        """True if HOST stands for every address of the machine."""
        return self.host.strip("[]") in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    @property
    def auth(self) -> str:
        """The effective MCP_AUTH. The default is ``loopback`` only if no other machine can connect."""
        return self.mcp_auth or ("loopback" if self.is_loopback else "required")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names under which this installation accepts requests, without ports."""
        own = () if self.listens_everywhere else (_bracketed(self.host),)
        public = urlsplit(self.public_url).hostname
        loopback = LOOPBACK_NAMES if self.is_loopback else ()
        return tuple(
            dict.fromkeys((*self.allowed_hosts, *((_bracketed(public),) if public else ()), *loopback, *own))
        )

    @property
    def base_url(self) -> str:
        """The address shown to people, without a trailing slash."""
        if self.public_url:
            return self.public_url
        host = "127.0.0.1" if self.listens_everywhere else _bracketed(self.host)
        return f"http://{host}:{self.port}"

    @property
    def client_url(self) -> str:
        """The address for every client, or "" if it depends on the host name that a client uses."""
        if not self.public_url and (self.listens_everywhere or self.allowed_hosts):
            return ""
        return self.base_url

    @property
    def offers_oauth(self) -> bool:
        """True if people log in here to connect clients: with credentials, over https or on this machine."""
        parts = urlsplit(self.client_url)
        safe = parts.scheme == "https" or _bracketed(parts.hostname or "") in LOOPBACK_NAMES
        return self.oauth and self.auth == "required" and safe

    @property
    def log_rows(self) -> int:
        """The maximum number of stored messages.

        Every log page was measured with the default on that database.
        """
        if self.message_log_rows is not None:
            return self.message_log_rows
        return 10_000_000 if self.database_url.startswith("postgres") else 1_000_000

    @property
    def run_dir(self) -> Path:
        """The folder with pid files and other data about running processes."""
        return self.data_dir / "run"

    @property
    def bridge_socket(self) -> str:
        """The path of the socket of the bridge to upstream servers over stdio."""
        return self.upstream_socket or str(self.run_dir / "upstreams.sock")

    @property
    def code_fault_file(self) -> Path:
        """The path of the file that states why edited code is not served."""
        return self.run_dir / "code_fault.json"


def _is_origin(url: str) -> bool:
    """Return True if ``url`` has scheme, host and optional port in characters that every client accepts."""
    try:
        parts = urlsplit(url)
        plain = re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+", url)
        return plain is not None and bool(parts.hostname) and parts.port != 0
    except ValueError:  # An invalid port or bracketed address.
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def read(**overrides: Any) -> Environment:
    """Return the settings of this process. Raise WrongSettings with one line for each wrong value."""
    # A variable that is set to "" means no host. Empty variables are ignored, so the default (any host)
    # would apply.
    if {name.upper(): value for name, value in os.environ.items()}.get("OAUTH_DOCUMENT_HOSTS") == "":
        overrides.setdefault("oauth_document_hosts", ())
    try:
        return Environment(**overrides)
    except ValidationError as error:
        raise WrongSettings("\n".join(_line(item) for item in error.errors())) from None


def _line(item: Any) -> str:
    """Return the line for one invalid setting. The value is shown only if it cannot be a secret."""
    name = str(item["loc"][0]).upper() if item["loc"] else ""
    message = item["msg"].removeprefix("Value error, ")
    if not name:
        return f"Wrong setting: {message}"
    if item["type"] != "value_error":
        message = f"is {item['input']!r}"
    return f"Wrong setting: {name} {message}. Set it to {REMEDIES[name]}."


def broker_url(redis_url: str) -> str:
    """Convert a Redis URL to Celery's form. Without a URL, return Celery's in-memory broker."""
    if redis_url.startswith("unix://"):
        return redis_url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return redis_url or "memory://"


def running_redis_url(run_dir: Path) -> str:
    """Return the URL of the embedded Redis that ``manage.py up`` runs for this data folder, or ""."""
    try:
        os.kill(int((run_dir / "redis.pid").read_text()), 0)
        return (run_dir / "redis.url").read_text()
    except (OSError, ValueError):
        return ""


def remember_redis_url(run_dir: Path, url: str) -> None:
    """Store the URL with its password for other commands. Only the installation's user can read it."""
    path = run_dir / "redis.url"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(url)


def forget_redis_url(run_dir: Path) -> None:
    """Delete the stored URL of an embedded Redis that has been stopped."""
    (run_dir / "redis.url").unlink(missing_ok=True)
