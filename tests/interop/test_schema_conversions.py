"""Libraries that pass tools to models accept all listed tools, and the APIs accept their conversions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.schemas.client_rules import refusals
from tests.interop import npm, pypi
from tests.samples.portable_tools import define_every_kind

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]

# A recursive type is the tool's own choice, and no API refuses it; two clients that are not tested here do.
OF_THE_TOOL = frozenset(("recursion",))
# By client, the tools it fails at (None: all with "additionalProperties": false), with its error, and the
# reason why this is accepted.
EXPECTED: dict[str, tuple[frozenset[str] | None, str]] = {
    # googleapis/python-genai#2393, #2476: it parses "additionalProperties": false as a schema. Without that
    # member it accepts all, as the client "google-genai without flags" here shows; unknown arguments would
    # then look allowed to every other client.
    "google-genai": (None, "'bool' object has no attribute 'items'"),
    # Forced strict mode cannot express a list of arbitrary values; it is off by default.
    "pydantic-ai openai strict": (
        frozenset(("much", "everything_create")),
        "requires array items to have a type",
    ),
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the demo's tools and one tool of every kind of generated schema."""
    wires = [definition.read().wire for definition in registry.tools.values()]
    with registry.isolated():
        define_every_kind()
        wires += [definition.read().wire for definition in registry.tools.values()]
    file = tmp_path_factory.mktemp("conversions") / "tools.json"
    file.write_text(json.dumps(wires))
    return file


@pytest.mark.requirement("SCHEMA-06")
def test_python_libraries_convert_every_tool_for_the_apis(tools: Path) -> None:
    found = {tool["name"]: tool["inputSchema"] for tool in json.loads(tools.read_text())}
    names = found.keys()
    closed = {name for name, schema in found.items() if schema.get("additionalProperties") is False}
    assert {"get_timestamp", "much", "everything_create", "user_list", "task"} <= names
    for client, made in pypi.run_script("models_convert", str(tools)).items():
        failing, words = EXPECTED.get(client, (frozenset(), ""))
        failed = {name: each["error"] for name, each in made.items() if "error" in each}
        assert failed.keys() == (closed if failing is None else failing), client
        assert all(words in error for error in failed.values()), client
        if not client.startswith("google-genai"):  # It generates a different kind of schema.
            _check({name: each for name, each in made.items() if name not in failed}, client)


@pytest.mark.requirement("SCHEMA-06")
def test_gemini_cli_converts_every_tool_for_the_apis(tools: Path) -> None:
    done = npm.run([str(npm.beside_packages("gemini.mjs", "gemini-core")), str(tools)])
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert report["tools"].keys() == {tool["name"] for tool in json.loads(tools.read_text())}
    assert {each["schemaProblem"] for each in report["tools"].values()} == {None}
    _check(report["tools"], "gemini-cli")


def _check(made: dict[str, Any], client: str) -> None:
    for name, each in made.items():
        found = refusals({"name": each["name"], "inputSchema": each["parameters"]})
        assert [str(refusal) for refusal in found if refusal.rule.id not in OF_THE_TOOL] == [], (client, name)
