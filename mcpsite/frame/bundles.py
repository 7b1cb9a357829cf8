"""The bundles of scripts and style sheets that a built package carries, and their sources.

``python -m tests.browser.bundles`` writes them. A process uses them only if every source is unchanged, so an
edited script, or another release of the skin, is served as separate files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import unfold

PACKAGE: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = PACKAGE / "bundled"
# The file with the hash of each source.
RECORD: Final = "sources.json"
# The folders of static files, in the order in which the files are found.
FOLDERS: Final = (
    PACKAGE / "skin",
    PACKAGE.parent / "mcp_app" / "static",
    Path(unfold.__path__[0]) / "static",
)

OWN: Final = tuple(
    f"mcp_app/{name}.js" for name in ("anything", "zone", "notices", "copy", "admin", "sure", "keys")
)
SKIN: Final = (
    "unfold/js/htmx/htmx.js",
    "unfold/js/chart/chart.js",
    "mcpsite/icons.js",
    "mcpsite/focus.js",
    "mcpsite/badge.js",
    "unfold/js/app.js",
    "unfold/js/simplebar/simplebar.js",
    *(f"unfold/js/alpine/alpine{name}.js" for name in (".anchor", ".persist", ".sort", ".resize", "")),
)
STYLES: Final = (
    "unfold/fonts/inter/styles.css",
    "unfold/fonts/material-symbols/styles.css",
    "unfold/css/styles.css",
    "unfold/css/simplebar/simplebar.css",
    "mcp_app/admin.css",
)
# Entry modules. Each is served under its own address, with all that it imports.
MODULES: Final = ("mcp_app/bench/page.js", "mcp_app/console/messages.js", "mcp_app/console/sessions.js")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A file that replaces its sources on pages that have the file ``marker``."""

    name: str
    marker: str
    sources: tuple[str, ...]


BUNDLES: Final = (
    Bundle("mcpsite/skin.css", "unfold/css/styles.css", STYLES),
    Bundle("mcpsite/skin.js", "unfold/js/alpine/alpine.js", (*OWN, *SKIN)),
    # In Django's own admin.
    Bundle("mcpsite/own.js", "mcp_app/admin.js", OWN),
)


def source(name: str) -> Path | None:
    """Return the file of a static file's name, or None if there is none."""
    return next((path for folder in FOLDERS if (path := folder / name).is_file()), None)


def digest(name: str) -> str:
    """Return the hash of a source, or "" if it does not exist."""
    path = source(name)
    return sha256(path.read_bytes()).hexdigest() if path is not None else ""


def are_current() -> bool:
    """Return True if the bundles exist, have all their sources, and no source was changed."""
    try:
        recorded = json.loads((FOLDER / RECORD).read_text())
    except (OSError, ValueError):
        return False
    if any(name not in recorded for bundle in BUNDLES for name in bundle.sources):
        return False
    return all(digest(name) == known for name, known in recorded.items())
