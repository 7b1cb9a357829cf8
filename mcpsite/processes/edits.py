"""Detection of edits to code."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from mcpsite.environment import WrongSettings

# The files that Python and Django load. Tools may write other files.
SUFFIXES = (".py", ".html", ".mo")
# Editors save several files at the same time, and a single file in several steps.
QUIET_MS = 50
MOST_MS = 400
MISSING = "--reload needs watchfiles: install it (pip install 'django-mcp-app[dev]'), or use `make dev`."
NOTHING = "--reload has nothing to watch: name your apps in MCP_APPS, and their folder in MCP_APPS_PATH."


class Edits:
    """A thread that watches folders. ``descriptor`` is readable while ``take`` has results."""

    def __init__(self, folders: Iterable[str]) -> None:
        """Start watching. Raise WrongSettings if the library is missing or no folder exists."""
        try:
            from watchfiles import DefaultFilter, watch
        except ImportError:
            raise WrongSettings(MISSING) from None
        self._folders = [folder for folder in folders if Path(folder).is_dir()]
        if not self._folders:
            raise WrongSettings(NOTHING)
        self._changed: SimpleQueue[list[str]] = SimpleQueue()
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        # Leaves out files of editors, caches, environments and repositories.
        self._is_of_interest = DefaultFilter()
        self._watch = watch
        threading.Thread(target=self._look, name="edits", daemon=True).start()

    def take(self) -> list[str]:
        """Return the files that were changed, added or removed since the previous call."""
        changed: list[str] = []
        with suppress(Empty):
            while True:
                changed += self._changed.get_nowait()
        return sorted(set(changed))

    def wait(self, file: Path, before: int) -> None:
        """Block until the next edit. An edit of ``file`` after the time ``before`` is never missed."""
        while changed_at(file) == before and not select.select([self.descriptor], [], [], 0.2)[0]:
            pass

    def reset(self) -> None:
        """Reset ``descriptor`` until the next edit."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def _look(self) -> None:
        batches = self._watch(
            *self._folders,
            watch_filter=lambda change, path: path.endswith(SUFFIXES) and self._is_of_interest(change, path),
            debounce=MOST_MS,
            step=QUIET_MS,
            raise_interrupt=False,
        )
        for batch in batches:
            self._changed.put([path for _, path in batch])
            os.write(self._wake, b"1")


def changed_at(file: Path) -> int:
    """Return the modification time of a file in nanoseconds, or 0 if it does not exist."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return 0
