"""Requirements of the wheel: ranges in pyproject.toml, and this project's pinned versions within them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcp_app.conf import Settings
from mcp_app.optional_parts import API, COMPANY_LOGIN, CONSOLE, DISTRIBUTION, PROVIDER, WEB_TOOLS
from mcpsite.frame.bundles import FOLDER as BUNDLED
from tests.architecture.source import ROOT, nodes_of

# Run in separate environments, or beside separate modules.
ELSEWHERE = (
    "tests/interop/clients/",
    "tests/foreign_project/project/",
    "tests/integration/exposing/other_project",
    # Run in environments of their own, where the benchmarks install them.
    "benchmarks/http_tools/peer",
    "benchmarks/relay/fastmcp_proxy",
)
OURS = ("mcp_app", "mcpsite", "tests", "benchmarks")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
RANGES = [
    found
    for line in [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    if canonicalize_name((found := Requirement(line)).name) != DISTRIBUTION
]
# Installed beside requirements.txt: for development, for traces, and for the company login.
FILES = ("requirements.txt", "requirements-dev.txt", "requirements-otel.txt", "requirements-sso.txt")
PINNED = {
    canonicalize_name(found[1]): found[2]
    for file in FILES
    for found in re.finditer(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("wanted", RANGES, ids=lambda wanted: wanted.name)
def test_pinned_version_is_in_the_range_of_the_package(wanted: Requirement) -> None:
    assert PINNED[canonicalize_name(wanted.name)] in wanted.specifier
    assert wanted.specifier


def test_version_is_the_same_everywhere() -> None:
    """The package, the ``initialize`` result, the change log, the images and the wheel in the docs."""
    version = PROJECT["version"]
    released = re.findall(r"^## (\d\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    tags = [
        re.findall(r'newTag: "(.+)"', path.read_text())
        for path in sorted((ROOT / "deploy/kubernetes").rglob("kustomization.yaml"))
    ]
    assert released[0] == version
    assert Settings().server_version == version
    assert tags == [[version], [version]]
    assert f"django_mcp_app-{version}-py3" in (ROOT / "docs/embedding.md").read_text()


def test_extra_all_includes_every_extra() -> None:
    (everything,) = (Requirement(line) for line in EXTRAS["all"])
    named = {
        extra
        for line in [*EXTRAS["all"], *EXTRAS["server"]]
        if (found := Requirement(line)).name == DISTRIBUTION
        for extra in found.extras
    }
    assert everything.name == PROJECT["name"] == DISTRIBUTION
    assert named == EXTRAS.keys() - {"all"}


@pytest.mark.parametrize(
    "part", [API, COMPANY_LOGIN, CONSOLE, PROVIDER, WEB_TOOLS], ids=lambda part: part.extra
)
def test_extra_named_in_a_hint_installs_the_missing_library(part: object) -> None:
    assert isinstance(part, type(API))
    spelled = {name.replace("_", "-") for name in part.libraries}
    brought = {canonicalize_name(Requirement(line).name) for line in EXTRAS[part.extra]}
    others = {"rest-framework": "djangorestframework", "jwt": "pyjwt", "allauth": "django-allauth"}
    assert {others.get(name, name) for name in spelled} <= brought


def test_data_files_are_inside_the_packages() -> None:
    packages = [ROOT / name for name in ("mcp_app", "mcpsite")]
    assert all((package / "py.typed").exists() for package in packages)
    files = [path for package in packages for path in package.rglob("*") if path.is_file()]
    # The bundles of a build, with the record of their sources, are not part of the checkout.
    kinds = {path.suffix for path in files if not path.is_relative_to(BUNDLED)}
    kinds -= {".py", ".pyc", ".html", ".css", ".js", ".svg", ".woff2", ".lua", ".typed", ".py-tpl", ".md-tpl"}
    # Licences of fonts.
    assert kinds <= {""}


def test_wheel_contains_every_document_and_no_picture() -> None:
    names = [file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()]
    prefix = "mcp_app/documents/"
    found = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    assert found == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {name.partition("/")[0] for name in names} == {"mcp_app", "mcpsite"}


def test_every_imported_library_is_pinned() -> None:
    imported: dict[str, str] = {}
    for path in (path for folder in OURS for path in (ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(ELSEWHERE):
            continue
        for node in nodes_of(path, ast.Import):
            imported |= {each.name.partition(".")[0]: name for each in node.names}
        for found in nodes_of(path, ast.ImportFrom):
            if not found.level:
                imported[str(found.module).partition(".")[0]] = name
    known = packages_distributions() | {"PIL": ["pillow"], "fontTools": ["fonttools"]}
    ours = {*OURS, *sys.stdlib_module_names}
    lines = "\n".join(path.read_text() for path in ROOT.glob("requirements*.txt"))
    pinned = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", lines, re.MULTILINE)}
    unpinned = {
        f"{module} in {file}"
        for module, file in imported.items()
        if module not in ours and pinned.isdisjoint(map(canonicalize_name, known.get(module, [])))
    }
    assert unpinned == set()
