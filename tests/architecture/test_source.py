"""Bounds on the source itself: sizes, names, docstrings, and the calls that must never be written."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for package in ("mcp_app", "mcpsite")
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)
FILE_LINES = 500
FOLDER_MODULES = 18
FUNCTION_LINES = 50
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|NotImplemented" + "Error")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions_of(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = first.end_lineno if is_docstring and len(function.body) > 1 else function.lineno - 1
    return (function.end_lineno or 0) - (start or 0)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_is_short_says_what_it_owns_and_is_finished(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") < FILE_LINES
    assert ast.get_docstring(tree_of(path)), "a module begins with one sentence: what it owns"
    assert not UNFINISHED.search(text)


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=name_of)
def test_a_folder_holds_few_modules_and_says_in_one_sentence_what_they_share(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= FOLDER_MODULES
    if "management" not in folder.parts and folder.name != "templatetags":
        assert ast.get_docstring(tree_of(folder / "__init__.py"))


def test_no_function_is_long_and_most_are_very_short() -> None:
    lengths = {
        f"{name_of(path)}:{node.lineno} {node.name}": length(node)
        for path in SOURCES
        for node in functions_of(path)
    }
    assert {where: lines for where, lines in lengths.items() if lines > FUNCTION_LINES} == {}
    assert statistics.median(lengths.values()) < 10


def test_names_say_what_a_module_is_about() -> None:
    assert [
        name_of(path) for path in SOURCES if VAGUE & set(path.with_suffix("").relative_to(ROOT).parts)
    ] == []


def dangers_of(call: ast.Call) -> Iterator[str]:
    """Names of dangerous things a call does (S19)."""
    written = ast.unparse(call.func)
    if written in {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "marshal.loads"}:
        yield written
    if written in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}:
        yield written
    for keyword in call.keywords:
        if keyword.arg == "shell" and not (
            isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        ):
            yield "shell="


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_evaluated_unpickled_or_given_to_a_shell(path: Path) -> None:
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            found += dangers_of(node)
        if isinstance(node, ast.Import):
            found += [
                alias.name for alias in node.names if alias.name in {"pickle", "shelve", "marshal", "dill"}
            ]
        if isinstance(node, ast.ImportFrom) and node.module in {"pickle", "shelve", "marshal", "dill"}:
            found.append(node.module)
    assert found == []


def test_no_query_names_the_username_which_a_projects_own_users_may_lack() -> None:
    named = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__username" in node.value
    ]
    assert named == []


def test_exceptions_of_every_kind_are_caught_at_the_named_boundaries_only() -> None:
    boundaries = {
        # One view of the project that cannot be described must not stop `migrate`, whatever it raises.
        "mcp_app/catalogue/exposure/viewsets/arguments.py",
        "mcp_app/dispatcher.py",
        "mcp_app/execution",
        # Whatever a project's own way for mail raises is shown to whom the mail was for.
        "mcp_app/notices/delivery.py",
        "mcp_app/message_log/writer.py",
        "mcp_app/transports/streamable_http/endpoint.py",
        # Hand what they catch over to the task, or the request, whose work they begin.
        "mcp_app/transports/streamable_http/shortcut/begun.py",
        "mcp_app/transports/streamable_http/first_steps.py",
    }
    broad = [
        name_of(path)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and not any(name_of(path).startswith(boundary) for boundary in boundaries)
    ]
    assert broad == []


# A text or number of these becomes a part of a test's name; other objects do not.
DIFFERING = re.compile(
    r"signing\.dumps|\.sign\(|time\.time|monotonic\(|token_(hex|urlsafe)\(|urandom\("
    r"|uuid\d\(\)\.|str\(uuid\d|\{(uuid\.)?uuid\d"
)


def test_no_test_is_named_by_something_that_differs_from_run_to_run() -> None:
    """Processes that share the tests of a run collect them apart, and stop when the names differ."""
    named = [
        f"{name_of(path)}:{decorator.lineno} {found[0]}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for decorator in decorators_of(path)
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize"
        for found in DIFFERING.finditer(made_at_once(decorator))
    ]
    assert named == []


def decorators_of(path: Path) -> Iterator[ast.expr]:
    return (decorator for function in functions_of(path) for decorator in function.decorator_list)


def made_at_once(decorator: ast.Call) -> str:
    """The code of a decorator that runs when its file is read: without lambdas."""

    class Without(ast.NodeTransformer):
        def visit_Lambda(self, _: ast.Lambda) -> ast.AST:
            return ast.Constant("a lambda")

    return ast.unparse(Without().visit(ast.parse(ast.unparse(decorator))))


# Of what is sent to browsers: files, and HTML in Python.
SENT = sorted(
    path
    for kind in ("*.html", "*.js", "*.py")
    for path in (ROOT / "mcp_app").rglob(kind)
    if "migrations" not in path.parts
)
HOME_MADE = re.compile(r"""popover(target)?\b|role=["']dialog|["']role["'], ["']dialog|aria-modal""")


def test_boxes_above_a_page_are_dialogs_of_the_browser() -> None:
    """A popover dims the page and lets clicks through to it; ``<dialog>`` and ``showModal`` do not."""
    assert [name_of(path) for path in SENT if HOME_MADE.search(path.read_text())] == []


# ruff's D401 does not find these words.
CLAUSE = re.compile(r"(?:What|Whether|Who|Whose|Which|How|Where|Why|When|As|Of|One|Those|By)\b")
# Docstrings there describe operations of the API, and tools.
DESCRIPTIONS = ("mcp_app/api/", "mcp_app/contrib/")


def test_no_docstring_of_a_function_begins_with_a_clause() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {docstring.splitlines()[0]}"
        for path in SOURCES
        if not name_of(path).startswith(DESCRIPTIONS)
        for node in functions_of(path)
        if (docstring := ast.get_docstring(node)) and CLAUSE.match(docstring)
    ]
    assert not found
