"""Commands of upstream servers over stdio: their settings, and their addresses at the bridge."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

# The purpose of the token that the bridge accepts.
TOKEN_PURPOSE: Final = "upstream bridge"  # noqa: S105 - a name
COMMAND_PATH: Final = "/commands/"
STATUS_URL: Final = "http://bridge/status"
# The variables that processes inherit. All others would hand them secrets of this server.
INHERITED: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_FLAG: Final = re.compile(
    r"--?[a-z0-9_-]*(token|secret|password|passwd|api[_-]?key|access[_-]?key|private[_-]?key)(=.+)?",
    re.IGNORECASE,
)
# The least and the greatest value of each number.
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "idle_seconds": (1, 86_400),
    "start_seconds": (1, 600),
    "memory_mb": (16, 1_048_576),
    "open_files": (16, 1_048_576),
    "max_processes": (1, 4_096),
    "max_sessions": (1, 1_024),
}


@dataclass(frozen=True, slots=True)
class UpstreamCommand:
    """A program that speaks MCP over stdio, and the limits of each of its sessions.

    ``max_processes`` counts the program and its children. ``max_sessions`` counts the programs that run at
    once.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    cwd: str = ""
    idle_seconds: float = 900.0
    start_seconds: float = 60.0
    memory_mb: int = 1_024
    open_files: int = 1_024
    max_processes: int = 64
    max_sessions: int = 16

    @property
    def path(self) -> str:
        """The path of the command at the bridge. It changes with the command line."""
        line = "\0".join((self.cwd, *self.command))
        return f"{COMMAND_PATH}{self.name}/{hashlib.sha256(line.encode()).hexdigest()[:16]}"

    @property
    def url(self) -> str:
        """The address of the command at the bridge."""
        return f"http://{self.name}.bridge{self.path}"

    def environment(self) -> dict[str, str]:
        """Return the variables of a process: the listed ones of this process, and those of the command."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**inherited, **self.env}

    def secrets(self, secret_names: tuple[str, ...]) -> Iterator[str]:
        """Yield the values of variables with the names of secrets, and passwords in addresses."""
        for name, value in self.env.items():
            if any(part in name.lower() for part in secret_names):
                yield value
            elif "://" in value and (password := _password(value)):
                yield password

    def secret_arguments(self) -> list[str]:
        """Return the arguments that seem to pass a secret. Every user of the machine can read arguments."""
        following = (*self.command[1:], "")
        found = []
        for argument, after in zip(self.command, following, strict=True):
            matched = _SECRET_FLAG.fullmatch(argument)
            if matched and (matched[2] or (after and not after.startswith("-"))):
                found.append(argument.partition("=")[0])
        return found


def read(given: Any) -> dict[str, UpstreamCommand]:
    """Return the commands of a setting by name. Raise ValueError with the problem."""
    if not isinstance(given, dict):
        raise ValueError("must be a dict of commands")  # noqa: TRY004 - a wrong setting
    return {name: _command(name, values) for name, values in given.items()}


def _command(name: Any, values: Any) -> UpstreamCommand:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"has {name!r}: use lower-case letters, digits, - and _")
    if not isinstance(values, dict):
        raise ValueError(f"has no dict for {name!r}")  # noqa: TRY004 - a wrong setting
    unknown = sorted({str(key) for key in values} - {"command", "env", "cwd", *_NUMBERS})
    if unknown:
        raise ValueError(f"has the unknown key {unknown[0]!r} in {name!r}")
    command, env, cwd = values.get("command"), values.get("env", {}), values.get("cwd", "")
    if not isinstance(command, (list, tuple)) or not command or not all(map(_is_text, command)):
        raise ValueError(f"needs a list of texts as the command of {name!r}")
    if not command[0]:
        raise ValueError(f"has no program in {name!r}")
    is_env = isinstance(env, dict) and all(
        isinstance(key, str) and _VARIABLE.fullmatch(key) and _is_text(value) for key, value in env.items()
    )
    if not is_env:
        # The values are not shown, because they may be secrets.
        raise ValueError(f"needs a dict of texts as the env of {name!r}")
    if not _is_text(cwd):
        raise ValueError(f"needs a folder as the cwd of {name!r}")
    numbers = {key: _number(name, key, values[key]) for key in _NUMBERS if key in values}
    return UpstreamCommand(name, tuple(command), dict(env), cwd, **numbers)


def _number(name: str, key: str, value: Any) -> Any:
    least, most = _NUMBERS[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
    if not is_number:
        raise ValueError(f"needs a number from {least:g} to {most:g} as {key} of {name!r}")
    return float(value) if key.endswith("_seconds") else int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _password(value: str) -> str:
    try:
        return urlsplit(value).password or ""
    except ValueError:
        return ""
