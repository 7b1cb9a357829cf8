"""Files are read only below their directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_app.catalogue.sources.content import files
from mcp_app.catalogue.sources.content.files import FileRefusedError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a directory with a file, a folder, links out of it and a pipe, next to a secret file."""
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "a.txt").write_text("inside")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "out").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.requirement("RES-05")
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "folder/../../secret.txt", "/etc/passwd", "link.txt", "out/secret.txt", "folder",
        "pipe", "folder//a.txt", "./folder/a.txt", "folder\\a.txt", "folder/a.txt\0", "", "missing",
        "folder/a.txt/",
    ],
)  # fmt: skip
def test_path_outside_root_or_not_plain_file_is_rejected(root: Path, path: str) -> None:
    with pytest.raises(FileRefusedError):
        files.read_below(str(root), path, 100)


def test_file_is_read_up_to_size_limit(root: Path) -> None:
    assert files.read_below(str(root), "folder/a.txt", 6) == b"inside"
    with pytest.raises(FileRefusedError, match="larger than 5 bytes"):
        files.read_below(str(root), "folder/a.txt", 5)


def test_root_directory_may_be_symlink(root: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    assert files.read_below(str(alias), "folder/a.txt", 100) == b"inside"


@pytest.mark.requirement("RES-05")
@pytest.mark.parametrize(
    "uri",
    [
        "file://{root}/../secret.txt", "file://{root}/%2e%2e/secret.txt", "file://{root}/folder%2Fa.txt",
        "file://{root}/folder/..%2f..%2fsecret.txt", "file://{root}/link.txt", "file://{root}/folder/a.txt%00",
        "file://{root}/folder/a.txt?x", "file://{root}/folder/a.txt#x", "file://host{root}/folder/a.txt",
        "file:folder/a.txt", "file://{root}-other/a.txt", "file://{root}", "http://{root}/folder/a.txt",
        "file://{root}/%ff", "file://{root}/folder%5ca.txt", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_ambiguous_file_uri_is_rejected(root: Path, uri: str) -> None:
    with pytest.raises(FileRefusedError):
        files.read_uri(uri.format(root=root), [str(root)], 100)


def test_file_uri_below_known_directory_is_read(root: Path) -> None:
    (root / "ä b.txt").write_text("x")
    assert files.read_uri(f"file://{root}/folder/a.txt", ["/nowhere", str(root)], 100) == b"inside"
    assert files.read_uri(f"file://localhost{root}/%C3%A4%20b.txt", [str(root)], 100) == b"x"


@pytest.mark.parametrize(
    ("mime_type", "is_text"),
    [
        ("text/plain", True), ("application/json; charset=utf-8", True), ("image/svg+xml", True),
        ("image/png", False), ("application/octet-stream", False), ("", False),
    ],
)  # fmt: skip
def test_text_is_detected_by_mime_type(mime_type: str, is_text: bool) -> None:
    assert files.is_text(mime_type) is is_text
