"""Errors of code that cannot be loaded: location in the user's folders, and Python's message."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import mcp_app
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import Registry, registry
from mcp_app.code_fault import CodeFault


def error_of(code: Path) -> BaseException:
    spec = importlib.util.spec_from_file_location("broken", code)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises((Exception, SystemExit)) as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("one = 1\ndef two(:\n", 2, "SyntaxError: invalid syntax"),
        ("\n\nimport no_such_library\n", 3, "ModuleNotFoundError: No module named 'no_such_library'"),
        ("import json\n\njson.loads('{')\n", 3, "json.decoder.JSONDecodeError: Expecting property name"),
        ("def inner():\n    raise ValueError('two\\nlines')\n\ninner()\n", 2, "ValueError: two lines"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    ],
)
def test_fault_location_is_innermost_line_of_folders(tmp_path: Path, text: str, line: int, says: str) -> None:
    code = tmp_path / "broken.py"
    code.write_text(text)
    fault = CodeFault.of(error_of(code), [str(tmp_path)])
    assert (fault.file, fault.line) == (str(code), line)
    assert fault.text.startswith(says)
    assert str(fault).startswith(f"{code}:{line}: {says}")
    assert f'File "{code}", line {line}' in "\n".join(fault.lines)
    assert "importlib" not in "\n".join(fault.lines)
    assert fault.is_in([str(tmp_path)])
    assert not fault.is_in([str(tmp_path / "other")])


def test_error_outside_folders_is_located_where_raised() -> None:
    try:
        raise DefinitionError("a wrong definition")
    except DefinitionError as error:
        fault = CodeFault.of(error, ["/no/such/folder"])
    assert fault.file == __file__
    assert not fault.is_in(["/no/such/folder"])


def test_duplicate_name_is_located_at_its_definition(tmp_path: Path) -> None:
    code = tmp_path / "broken.py"
    code.write_text(
        "from mcp_app import tool\n\n\n"
        "@tool\ndef one() -> str: ...\n\n\n"
        "@tool(name='one')\ndef two() -> str: ...\n"
    )
    with registry.isolated():
        error = error_of(code)
    ours = str(Path(mcp_app.__file__).parent)
    fault = CodeFault.of(error, [str(tmp_path), ours])
    assert (fault.file, fault.line) == (str(code), 8)
    assert ours not in "\n".join(fault.lines)


def test_fault_of_library_code_is_located_in_library() -> None:
    try:
        Registry().add_tool(None)  # type: ignore[arg-type]
    except AttributeError as error:
        fault = CodeFault.of(error, [str(Path(mcp_app.__file__).parent)])
    assert fault.file.endswith("registry.py")


def test_fault_file_round_trips_and_malformed_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "code_fault.json"
    assert CodeFault.read(path) is None
    path.write_text("{half of")
    assert CodeFault.read(path) is None
    fault = CodeFault("/tools/mcp.py", 3, "SyntaxError: invalid syntax", ("one", "two"))
    fault.write(path)
    assert CodeFault.read(path) == fault
    assert str(CodeFault("", 0, "web-1 ended")) == "web-1 ended"
