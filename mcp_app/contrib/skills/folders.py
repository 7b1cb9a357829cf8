"""Discovery of skills in folders. The files of skills are read once, at start."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured

from mcp_app import conf
from mcp_app.contrib.skills import frontmatter

SCHEME: Final = "skill://"
MANIFEST: Final = "SKILL.md"
# Limits that every client must support (SEP-2640, limits).
MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024
_LEFT_OUT: Final = frozenset(("__pycache__",))


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill."""

    uri: str
    name: str
    mime_type: str
    data: bytes
    content: str | bytes

    def manifest_entry(self) -> dict[str, Any]:
        """Return the file's member of ``resources`` in the entry of a skill."""
        return {"uri": self.uri, "digest": self.digest, "size": len(self.data)}

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the bytes."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder with a SKILL.md and all files below it, including other skills."""

    uri: str
    frontmatter: dict[str, Any]
    files: tuple[SkillFile, ...]
    entry: dict[str, Any]


def find(roots: Iterable[Path]) -> dict[str, Skill]:
    """Map URIs to the skills below some folders. Raises ImproperlyConfigured naming the file."""
    found: dict[str, Skill] = {}
    homes: dict[str, Path] = {}
    for root in roots:
        for manifest in sorted(_files(root)):
            if manifest.name != MANIFEST:
                continue
            skill = _read(root, manifest)
            if skill.uri in found:
                raise ImproperlyConfigured(f"{manifest}: {homes[skill.uri]} is the same skill, {skill.uri}.")
            found[skill.uri], homes[skill.uri] = skill, manifest
    return dict(sorted(found.items()))


def _read(root: Path, manifest: Path) -> Skill:
    folder = manifest.parent
    if folder == root:
        raise ImproperlyConfigured(f"{manifest}: a skill needs a folder of its own name below {root}.")
    paths = sorted(_files(folder))
    if len(paths) > MOST_FILES or sum(path.stat().st_size for path in paths) > MOST_BYTES:
        raise ImproperlyConfigured(
            f"{folder}: a skill has at most {MOST_FILES} files and {MOST_BYTES // 1024 // 1024} MiB."
        )
    files = tuple(_file(root, path) for path in paths)
    own = next(file for file in files if file.uri == _uri(root, manifest))
    if not isinstance(own.content, str):
        raise ImproperlyConfigured(f"{manifest}: it is not text in UTF-8.")
    try:
        values = frontmatter.read(own.content, folder.name)
    except ValueError as error:
        raise ImproperlyConfigured(f"{manifest}: {error}.") from None
    entry = {"uri": own.uri, "frontmatter": values, "resources": [file.manifest_entry() for file in files]}
    return Skill(own.uri, values, files, entry)


def _files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder that is not hidden.

    Raises ImproperlyConfigured for a link, because it could lead outside.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(name)]
        for name in (*folders, *names):
            if not _is_left_out(name) and (path := Path(place, name)).is_symlink():
                raise ImproperlyConfigured(f"{path}: a skill must not hold links.")
        yield from (Path(place, name) for name in names if not _is_left_out(name))


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in _LEFT_OUT


def _file(root: Path, path: Path) -> SkillFile:
    data = path.read_bytes()
    limit = conf.get().max_result_bytes * 3 // 4  # Base64 adds a third.
    if len(data) > limit:
        raise ImproperlyConfigured(f"{path}: it is too large to be sent, more than {limit} bytes.")
    content: str | bytes = data
    if b"\0" not in data:
        try:
            content = data.decode("utf-8")
        except UnicodeDecodeError:
            content = data
    plain = "text/plain" if isinstance(content, str) else "application/octet-stream"
    mime_type = "text/markdown" if path.suffix == ".md" else mimetypes.guess_type(path.name)[0] or plain
    return SkillFile(_uri(root, path), path.name, mime_type, data, content)


def _uri(root: Path, path: Path) -> str:
    return SCHEME + "/".join(quote(part, safe="") for part in path.relative_to(root).parts)
