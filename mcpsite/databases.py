"""Django's connection parameters for the database of an installation. This module does not import Django."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def from_url(url: str) -> dict[str, Any]:
    """Return Django's connection parameters for a PostgreSQL or SQLite URL. Raise ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite(Path(unquote(parts.path.removeprefix("/"))))
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"has the scheme {parts.scheme!r}")
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ValueError("names no database")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("has a port that is not a number") from None
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "mcp_app.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", unquote(parts.hostname or "")),
        "PORT": str(port or ""),
        "CONN_MAX_AGE": 0,
        # If sent data is not acknowledged for this time (milliseconds), the connection to the server is
        # ended.
        "OPTIONS": {"connect_timeout": 2, "tcp_user_timeout": 10_000, "keepalives_idle": 30, **options},
    }


def sqlite(path: Path) -> dict[str, Any]:
    """Return Django's connection parameters for an SQLite file to which several processes write."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            # A deferred transaction first reads and then writes. It fails at once if another process has
            # written in between. With IMMEDIATE, it takes the write lock at BEGIN and waits.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
