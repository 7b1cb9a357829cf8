"""A disk that a test can fill; for root on Linux only."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

BLOCK = b"x" * 4096


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a disk of that size at the folder inside the block. Skip the test where that is impossible."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    if not sys.platform.startswith("linux") or os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root of a Linux machine may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def no_room(folder: Path, *, takes_freed: bool = False) -> Iterator[None]:
    """Fill the disk inside the block. ``takes_freed``: also fill bytes that are freed meanwhile."""
    filler, over = folder / "filler", threading.Event()
    with filler.open("wb", buffering=0) as file:

        def fill() -> None:
            with suppress(OSError):
                while True:
                    file.write(BLOCK)

        def keep_full() -> None:
            while not over.wait(0.005):
                fill()

        fill()
        taking = threading.Thread(target=keep_full)
        if takes_freed:
            taking.start()
        try:
            yield
        finally:
            over.set()
            if takes_freed:
                taking.join()
            filler.unlink()
