"""Limits on the source: sizes, names, docstrings, and forbidden calls."""

from __future__ import annotations

import ast
import re
import re._parser as sre_parser  # type: ignore[import-not-found]
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, SOURCES, Function, functions_of, name_of, nodes_of, tree_of

FILE_LINES = 500
FOLDER_MODULES = 18
FUNCTION_LINES = 50
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|NotImplemented" + "Error")
REGEX = ("RegexValidator", "RegexField", "re.compile", "re.match", "re.search", "re.fullmatch")
# A filter that returns HTML, in an attribute or in an element that shows its markup.
HTML_AS_TEXT = re.compile(r"""(="[^"<>]*|<(option|title|textarea)[^>]*>[^<]*)\|visible""")


def length(function: Function) -> int:
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = first.end_lineno if is_docstring and len(function.body) > 1 else function.lineno - 1
    return (function.end_lineno or 0) - (start or 0)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_module_is_short_documented_and_finished(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") < FILE_LINES
    assert ast.get_docstring(tree_of(path)), "a module begins with one sentence: what it owns"
    assert not UNFINISHED.search(text)


def test_attributes_and_options_contain_no_html() -> None:
    templates = [path for name in ("mcp_app", "mcpsite") for path in (ROOT / name).rglob("*.html")]
    found = [
        f"{name_of(path)}: {match[0]}"
        for path in templates
        for match in HTML_AS_TEXT.finditer(path.read_text())
    ]
    assert len(templates) > 50
    assert not found, "the filter marked returns plain text"


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=name_of)
def test_folder_has_few_modules_and_a_docstring(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= FOLDER_MODULES
    if "management" not in folder.parts and folder.name != "templatetags":
        assert ast.get_docstring(tree_of(folder / "__init__.py"))


def test_functions_are_short() -> None:
    lengths = {
        f"{name_of(path)}:{node.lineno} {node.name}": length(node)
        for path in SOURCES
        for node in functions_of(path)
    }
    assert {where: lines for where, lines in lengths.items() if lines > FUNCTION_LINES} == {}
    assert statistics.median(lengths.values()) < 10


def test_module_names_are_specific() -> None:
    assert [
        name_of(path) for path in SOURCES if VAGUE & set(path.with_suffix("").relative_to(ROOT).parts)
    ] == []


def dangers_of(call: ast.Call) -> Iterator[str]:
    """Yield the names of dangerous things that a call does (S19)."""
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
def test_no_eval_pickle_or_shell(path: Path) -> None:
    called = [danger for call in nodes_of(path, ast.Call) for danger in dangers_of(call)]
    imported = {alias.name for node in nodes_of(path, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes_of(path, ast.ImportFrom)}
    assert called == []
    assert imported & {"pickle", "shelve", "marshal", "dill"} == set()


def patterns_of(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls with a regular expression that is written in them, and the expression."""
    for node in nodes_of(path, ast.Call):
        if not node.args or not ast.unparse(node.func).endswith(REGEX):
            continue
        first = node.args[0]
        parts = first.values if isinstance(first, ast.JoinedStr) else [first]
        texts = [each.value if isinstance(each, ast.Constant) else "x" for each in parts]
        if isinstance(first, ast.Constant | ast.JoinedStr) and "MULTILINE" not in ast.unparse(node):
            yield node, "".join(each if isinstance(each, str) else each.decode("latin-1") for each in texts)


def test_no_pattern_allows_a_line_break_at_its_end() -> None:
    """``$`` also matches before a final line break, so a validator with it admits "name\\n"."""
    found = [
        f"{name_of(path)}:{call.lineno}"
        for path in SOURCES
        for call, pattern in patterns_of(path)
        if "AT_END)" in str(sre_parser.parse(pattern))
    ]
    assert found == [], "write \\Z"


def test_no_query_uses_the_username_field() -> None:
    named = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path, ast.Constant)
        if isinstance(node.value, str) and "__username" in node.value
    ]
    assert named == []


def test_broad_excepts_exist_at_named_boundaries_only() -> None:
    boundaries = {
        # A view of the project whose description fails must not stop `migrate`.
        "mcp_app/catalogue/exposure/viewsets/arguments.py",
        "mcp_app/dispatcher.py",
        "mcp_app/execution",
        # Errors of a project's mail backend are shown to the recipient.
        "mcp_app/notices/delivery.py",
        "mcp_app/message_log/writer.py",
        # Application code creates the texts of its exceptions.
        "mcp_app/observability/incidents.py",
        "mcp_app/transports/streamable_http/endpoint.py",
        # These pass the exception to the task or request that they start.
        "mcp_app/transports/streamable_http/shortcut/started.py",
        "mcp_app/transports/streamable_http/inline_steps.py",
        # An error page is also shown if its frame fails.
        "mcpsite/error_pages.py",
    }
    broad = [
        name_of(path)
        for path in SOURCES
        for node in nodes_of(path, ast.ExceptHandler)
        if (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and not any(name_of(path).startswith(boundary) for boundary in boundaries)
    ]
    assert broad == []


# Text or numbers of these become part of a test's name; other objects do not.
DIFFERING = re.compile(
    r"signing\.dumps|\.sign\(|time\.time|monotonic\(|token_(hex|urlsafe)\(|urandom\("
    r"|uuid\d\(\)\.|str\(uuid\d|\{(uuid\.)?uuid\d"
)


def test_parametrize_ids_are_the_same_in_every_run() -> None:
    """Processes that share a run collect tests separately, and stop if the names differ."""
    named = [
        f"{name_of(path)}:{decorator.lineno} {found[0]}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if DIFFERING.search(path.read_text())
        for decorator in decorators_of(path)
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize"
        for found in DIFFERING.finditer(made_at_once(decorator))
    ]
    assert named == []


def decorators_of(path: Path) -> Iterator[ast.expr]:
    return (decorator for function in functions_of(path) for decorator in function.decorator_list)


def made_at_once(decorator: ast.Call) -> str:
    """Return the code of a decorator that runs at import: without lambdas."""

    class Without(ast.NodeTransformer):
        def visit_Lambda(self, _: ast.Lambda) -> ast.AST:
            return ast.Constant("a lambda")

    return ast.unparse(Without().visit(ast.parse(ast.unparse(decorator))))


# Sent to browsers: files, and HTML in Python.
SENT = sorted(
    path
    for kind in ("*.html", "*.js", "*.py")
    for path in (ROOT / "mcp_app").rglob(kind)
    if "migrations" not in path.parts
)
HOME_MADE = re.compile(r"""popover(target)?\b|role=["']dialog|["']role["'], ["']dialog|aria-modal""")


def test_dialogs_are_native_dialog_elements() -> None:
    """A popover dims the page and lets clicks through; ``<dialog>`` and ``showModal`` do not."""
    assert [name_of(path) for path in SENT if HOME_MADE.search(path.read_text())] == []


# ruff's D401 does not find these words.
CLAUSE = re.compile(r"(?:What|Whether|Who|Whose|Which|How|Where|Why|When|As|Of|One|Those|By)\b")
# Readers stopped at these. Plain: "users", "a separate", "is finished", "is not a".
RIDDLES = re.compile(
    r"\b(?:nobody|somebody|whoever|everybody|anybody)\b"
    r"|\b(?:of (?:its|their) own|by itself|by themselves|for ever|anew)\b"
    r"|\b(?:is|are|was|were) (?:over|begun|gone)\b"
    r"|\b(?:tells? (?:what|of|who)|hears? of|says? (?:what|who|nothing)|go(?:es)? on with)\b"
    r"|(?<!there )\b(?:is|are) no (?!longer|more)[a-z]"
    r"|\b(?:what|who) (?:is|was|has|gave) no\b|\bwhat is (?:left|said|asked)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"``.*?``", re.DOTALL)
# Docstrings there describe API operations and tools.
DESCRIPTIONS = ("mcp_app/api/", "mcp_app/contrib/")


def test_no_function_docstring_begins_with_a_clause() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {docstring.splitlines()[0]}"
        for path in SOURCES
        if not name_of(path).startswith(DESCRIPTIONS)
        for node in functions_of(path)
        if (docstring := ast.get_docstring(node)) and CLAUSE.match(docstring)
    ]
    assert not found


def test_docstrings_have_no_riddles() -> None:
    found = [
        f"{name_of(path)}: {phrase[0]}"
        for path in SOURCES
        for node in nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
        if (phrase := RIDDLES.search(QUOTED.sub("code", ast.get_docstring(node) or "")))
    ]
    assert not found
