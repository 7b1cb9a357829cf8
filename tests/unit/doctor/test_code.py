"""Edited code that cannot be loaded is reported as an error with its location."""

from __future__ import annotations

from pathlib import Path

from django.test import override_settings

from mcp_app.code_fault import CodeFault
from mcp_app.doctor import Installation, Level, code


def test_code_fault_is_reported_until_fixed(tmp_path: Path) -> None:
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


def test_unwatched_code_reports_nothing() -> None:
    with override_settings(MCP={}):
        assert list(code.edited(Installation())) == []
