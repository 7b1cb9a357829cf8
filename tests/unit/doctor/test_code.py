"""Edited code that cannot be loaded is an error with its place; otherwise nothing is said."""

from __future__ import annotations

from pathlib import Path

from django.test import override_settings

from mcp_app.code_fault import CodeFault
from mcp_app.doctor import Installation, Level, code


def test_an_edit_that_is_not_served_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "code_fault.json"
    with override_settings(MCP={"CODE_FAULT_FILE": str(path)}):
        assert list(code.edited(Installation())) == []
        CodeFault("/tools/mcp.py", 3, "SyntaxError: invalid syntax").write(path)
        (found,) = code.edited(Installation())
        assert found.level == Level.ERROR
        assert "/tools/mcp.py:3: SyntaxError" in found.text
        assert found.remedy
        path.unlink()
        assert list(code.edited(Installation())) == []


def test_where_no_edits_are_watched_for_there_is_nothing_to_say() -> None:
    with override_settings(MCP={}):
        assert list(code.edited(Installation())) == []
