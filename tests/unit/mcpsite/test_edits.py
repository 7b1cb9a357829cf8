"""Detection of edits: reported files, ignored files, and one clear line if the library is missing."""

from __future__ import annotations

import select
import sys
from pathlib import Path

import pytest

from mcpsite.environment import WrongSettings
from mcpsite.processes.edits import Edits
from mcpsite.processes.own_code import OURS, is_loaded_ahead


def test_missing_watchfiles_raises_one_line_with_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(WrongSettings) as refused:
        Edits([str(tmp_path)])
    assert "pip install 'django-mcp-app[dev]'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_folder_raises_wrong_settings() -> None:
    pytest.importorskip("watchfiles", reason="requirements-dev.txt is not installed")
    with pytest.raises(WrongSettings, match="nothing to watch"):
        Edits(["/no/such/folder"])


def test_saved_code_is_reported_and_generated_files_are_ignored(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles", reason="requirements-dev.txt is not installed")
    (tmp_path / "__pycache__").mkdir()
    edits = Edits([str(tmp_path), str(tmp_path / "no such folder")])
    assert edits.take() == []
    (tmp_path / "notes.txt").write_text("written by a tool")
    (tmp_path / "__pycache__" / "mcp.py").touch()
    # Save as editors do: write a draft, then replace the file. Repeat until the new thread sees it.
    reported: set[str] = set()
    for number in range(300):
        draft = tmp_path / "mcp.py~"
        draft.write_text(f"number = {number}\n")
        draft.replace(tmp_path / "mcp.py")
        if select.select([edits.descriptor], [], [], 0.1)[0]:
            edits.reset()
            reported |= set(edits.take())
            break
    assert reported == {str(tmp_path / "mcp.py")}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tools/mytools/mcp.py", False),
        ("/tools/mytools/prompts/words.py", False),
        ("/tools/mytools/templates/mytools/page.html", False),
        ("/tools/mytools/__init__.py", True),
        ("/tools/mytools/models.py", True),
        (f"{OURS[0]}/pages.py", True),
        (f"{OURS[1]}/text.py", True),
    ],
)
def test_is_loaded_ahead_covers_modules_loaded_at_start(path: str, expected: bool) -> None:
    assert is_loaded_ahead([path]) is expected
