"""Noticing edits: what is reported, what is not, and one line where the library is missing."""

from __future__ import annotations

import select
import sys
from pathlib import Path

import pytest

from mcpsite.environment import WrongSettings
from mcpsite.processes.edits import Edits
from mcpsite.processes.own_code import OURS, is_loaded_ahead


def test_without_the_library_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(WrongSettings) as refused:
        Edits([str(tmp_path)])
    assert "pip install 'django-mcp-app[dev]'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_folder_one_line_says_how_to_name_one() -> None:
    pytest.importorskip("watchfiles", reason="requirements-dev.txt is not installed")
    with pytest.raises(WrongSettings, match="nothing to watch"):
        Edits(["/no/such/folder"])


def test_code_that_is_saved_in_any_way_is_reported_and_what_tools_write_is_not(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles", reason="requirements-dev.txt is not installed")
    (tmp_path / "__pycache__").mkdir()
    edits = Edits([str(tmp_path), str(tmp_path / "no such folder")])
    assert edits.take() == []
    (tmp_path / "notes.txt").write_text("written by a tool")
    (tmp_path / "__pycache__" / "mcp.py").touch()
    # As editors save: beside it, then in its place. Again until it is seen: the thread has just begun.
    reported: set[str] = set()
    for number in range(300):
        draft = tmp_path / "mcp.py~"
        draft.write_text(f"number = {number}\n")
        draft.replace(tmp_path / "mcp.py")
        if select.select([edits.descriptor], [], [], 0.1)[0]:
            edits.seen()
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
def test_a_process_that_started_ahead_of_an_edit_of_what_it_has_loaded_is_of_no_use(
    path: str, expected: bool
) -> None:
    assert is_loaded_ahead([path]) is expected
