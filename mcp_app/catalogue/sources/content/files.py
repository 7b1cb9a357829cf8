"""Safe reading of files that administrators offer: regular files of bounded size below known directories.

Every directory on the path is opened without following symbolic links. Neither a link nor a directory that is
replaced during the reading can therefore lead outside (RES-05, S18).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes, urlsplit

_TEXT_TYPES = frozenset(
    ("application/json", "application/xml", "application/yaml", "application/javascript", "application/sql")
)


class FileRefusedError(Exception):
    """A forbidden or missing file. The text is for administrators and is not sent to clients."""


def read_below(root: str, relative: str, limit: int) -> bytes:
    """Return the bytes of ``root/relative``, at most ``limit``. Raises FileRefusedError."""
    parts = relative.split("/")
    if "\0" in relative or "\\" in relative or any(part in ("", ".", "..") for part in parts):
        raise FileRefusedError(f"{relative!r} is not a plain path below the directory.")
    try:
        descriptor = _open_beneath(os.path.realpath(root), parts)
    except OSError as error:
        raise FileRefusedError(f"{relative!r} cannot be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileRefusedError(f"{relative!r} is not a plain file.")
        data = _read(descriptor, limit + 1)
    except OSError as error:
        raise FileRefusedError(f"{relative!r} cannot be read: {error.strerror}.") from error
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileRefusedError(f"{relative!r} is larger than {limit} bytes.")
    return data


def read_uri(uri: str, roots: Iterable[str], limit: int) -> bytes:
    """Return the bytes of a ``file:`` URI below one of ``roots``. Raises FileRefusedError."""
    path = path_of(uri)
    for root in map(os.path.realpath, roots):
        if path.startswith(root.rstrip("/") + "/"):
            return read_below(root, path[len(root.rstrip("/")) + 1 :], limit)
    raise FileRefusedError(f"{uri!r} is outside the resource directories.")


def path_of(uri: str) -> str:
    """Return the absolute path of a ``file:`` URI, percent-decoded once. Raises FileRefusedError."""
    parts = urlsplit(uri)
    if (
        parts.scheme.lower() != "file"
        or parts.netloc not in ("", "localhost")
        or parts.query
        or parts.fragment
    ):
        raise FileRefusedError(f"{uri!r} is not a file: URI of this machine.")
    if "%2f" in parts.path.lower():
        raise FileRefusedError(f"{uri!r} has an encoded slash.")
    try:
        path = unquote_to_bytes(parts.path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileRefusedError(f"{uri!r} is not UTF-8.") from error
    hidden = any(part in ("", ".", "..") for part in path[1:].split("/"))
    if hidden or not path.startswith("/") or "\0" in path or "\\" in path:
        raise FileRefusedError(f"{uri!r} is not a plain absolute path.")
    return path


def _open_beneath(root: str, parts: list[str]) -> int:
    """Open a file below the root, one path part at a time. A symbolic link raises OSError."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=directory)
            os.close(directory)
            directory = inner
        # Without O_NONBLOCK a named pipe would block the thread forever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(parts[-1], flags, dir_fd=directory)
    finally:
        os.close(directory)


def _read(descriptor: int, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(limit)


def is_text(mime_type: str) -> bool:
    """Return True if content of this MIME type is sent as text."""
    base = mime_type.partition(";")[0].strip().lower()
    return base.startswith("text/") or base.endswith(("+json", "+xml")) or base in _TEXT_TYPES
