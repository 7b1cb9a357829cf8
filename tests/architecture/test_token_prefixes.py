"""Every prefix of secrets that this server issues is known to redaction."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mcp_app.auth.identity_provider.provider import PREFIX as PROVIDERS
from mcp_app.auth.tokens import KINDS
from mcp_app.observability.redaction import MARK, PREFIXES, Redactor
from tests.architecture.source import SOURCES, name_of, nodes_of

PREFIX = re.compile(r"mcp[a-z]*_(?:[a-z]+_)?")


def prefixes_in(path: Path) -> set[str]:
    """Return the strings of a module that look like the prefix of a secret."""
    found = {node.value for node in nodes_of(path, ast.Constant)}
    return {text for text in found if isinstance(text, str) and PREFIX.fullmatch(text)}


def test_every_prefix_in_the_source_is_redacted() -> None:
    found = {prefix: name_of(path) for path in SOURCES for prefix in prefixes_in(path)}
    shown = {prefix: Redactor(()).text(f"a {prefix}{'Ab3-_9xY' * 5}") for prefix in found}
    assert set(KINDS) & set(found)
    assert not {prefix: found[prefix] for prefix in found if shown[prefix] != f"a {MARK}"}, "add to PREFIXES"


@pytest.mark.parametrize("prefix", sorted({*KINDS, *PREFIXES} - {PROVIDERS}))
def test_token_of_every_registered_kind_is_redacted_without_its_scheme(prefix: str) -> None:
    """Tokens of identity providers have no prefix of ours: they are found by ``Bearer`` before them."""
    redactor = Redactor(())
    token = prefix + "Ab3-_9xY" * 5
    assert redactor.is_suspect(token.encode())
    assert redactor.text(f"a {token}") == f"a {MARK}"
