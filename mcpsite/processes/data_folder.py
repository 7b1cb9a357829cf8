"""The data folder, which only its user can read, and the generated secret key in it."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from mcpsite.environment import REMEDIES, WrongSettings


def prepare_data_dir(path: Path) -> None:
    """Create the data folder, readable only by this user. Raise WrongSettings if it is not writable."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "run").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _refusal(path, error.strerror) from None
    if not os.access(path, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        reason = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
        raise _refusal(path, reason)
    if path.stat().st_uid == os.getuid():
        path.chmod(0o700)


def _refusal(path: Path, reason: str | None) -> WrongSettings:
    remedy = f"Set DATA_DIR to {REMEDIES['DATA_DIR']}."
    return WrongSettings(f"Cannot write to the data folder {path}: {reason}. {remedy}")


def stored_secret_key(path: Path) -> str:
    """Return the secret key stored in ``path``.

    It is generated on first use and is the same for all processes. Raise WrongSettings if it cannot be
    stored.
    """
    try:
        if not path.exists():
            _make_secret_key(path)
        return path.read_text()
    except OSError as error:
        raise _refusal(path.parent, error.strerror) from None


def _make_secret_key(path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        # A link never replaces a file. If several processes start for the first time, one link succeeds,
        # and the other processes read that key.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
