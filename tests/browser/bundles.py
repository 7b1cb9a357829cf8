"""Writes bundles of scripts and style sheets into ``mcpsite/bundled``: ``python -m tests.browser.bundles``.

Needs npm, for esbuild.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from mcpsite.frame.bundles import BUNDLES, FOLDER, MODULES, RECORD, Bundle, are_current, digest, source
from tests.clients import node

IMPORTED = re.compile(
    r"""^(?:import|export)\b[^;]*?\bfrom\s+"(\./|\.\./)([^"]+)";""", re.MULTILINE | re.DOTALL
)
ADDRESS = re.compile(r'url\("([^":]+)"\)')


def build() -> None:
    """Write the bundles, unless they are current. Raise NodeUnavailable."""
    node.CACHE.mkdir(parents=True, exist_ok=True)
    with (node.CACHE / "bundles.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not are_current():
            _write()


def _write() -> None:
    with TemporaryDirectory(dir=FOLDER.parent, prefix=".bundled-") as written:
        folder = Path(written)
        for bundle in BUNDLES:
            _save(folder / bundle.name, _style(bundle) if bundle.name.endswith(".css") else _script(bundle))
        for name in MODULES:
            _save(folder / name, _esbuild("--bundle", "--format=esm", str(_file(name))))
        names = {name for bundle in BUNDLES for name in bundle.sources} | _modules(*MODULES)
        _save(folder / RECORD, json.dumps({name: digest(name) for name in sorted(names)}, indent=1))
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(folder, FOLDER)


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _script(bundle: Bundle) -> str:
    """Return scripts one after the other. The names at their top level stay, because pages use them."""
    # The first character keeps the directive "use strict" of one script from all of them.
    return ";" + "".join(_esbuild("--loader=js", typed=_file(name).read_text()) for name in bundle.sources)


def _style(bundle: Bundle) -> str:
    """Return style sheets one after the other. Their addresses lead from the bundle to the same files."""
    texts = []
    for name in bundle.sources:
        above = "../" * (len(PurePosixPath(bundle.name).parts) - 1)
        beside = above + PurePosixPath(name).parent.as_posix()
        texts.append(ADDRESS.sub(rf'url("{beside}/\1")', _file(name).read_text()))
    return "".join(_esbuild("--loader=css", typed=text) for text in texts)


def _file(name: str) -> Path:
    found = source(name)
    assert found is not None, name
    return found


def _modules(*names: str) -> set[str]:
    """Return modules and all that they import."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        parent = PurePosixPath(name).parent
        for up, rest in IMPORTED.findall(_file(name).read_text()):
            imported = str((parent.parent if up == "../" else parent) / rest)
            if imported not in found:
                waiting.append(imported)
    return found


@cache
def _program() -> str:
    return str(node.install("bundles") / "esbuild" / "bin" / "esbuild")


def _esbuild(*options: str, typed: str | None = None) -> str:
    command = [
        _program(),
        "--minify",
        "--charset=utf8",
        "--legal-comments=none",
        "--log-level=warning",
        *options,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=typed, timeout=60).stdout


if __name__ == "__main__":
    build()
