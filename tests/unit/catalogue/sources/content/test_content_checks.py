"""Checks of prompts and resources that administrators write: single braces, and schemes of URIs."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.content.checks import check_resource, with_scheme
from mcp_app.catalogue.sources.content.source import CONTENT
from mcp_app.models import Prompt, Resource


@pytest.mark.parametrize(
    ("template", "warning"),
    [
        ("Order {order} of {{who}}", "{order} is plain text. Did you mean {{order}}?"),
        ("{a} {b} {a}", "{a}, {b} are plain text. Did you mean {{a}}, {{b}}?"),
        ("Order {{order}}", ""),
        ('Answer {"a": 1} or {} or {1}', ""),
        ("{{{order}}}", ""),
        ("Hi {{who}} {{who", "{{who is plain text, because }} does not follow. Did you mean {{who}}?"),
        (
            "Hi {{ who } and {{ who }}",
            "{{who is plain text, because }} does not follow. Did you mean {{who}}?",
        ),
    ],
)
def test_name_in_wrong_braces_causes_a_warning(template: str, warning: str) -> None:
    found = CONTENT.warnings(Prompt(name="p", template=template))
    assert found == ({"template": [warning]} if warning else {})


@pytest.mark.parametrize(
    ("entered", "stored"),
    [
        ("terms", "resource://terms"),
        ("/legal/terms.md", "resource://legal/terms.md"),
        ("docs://terms", "docs://terms"),
        ("urn:terms", "urn:terms"),
        ("", ""),
    ],
)
def test_uri_without_scheme_gets_the_default_scheme(entered: str, stored: str) -> None:
    assert with_scheme(entered) == stored


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("terms", "A URI begins with a scheme, such as resource://terms."),
        ("docs://a b", "The URI 'docs://a b' has characters that no URI can have."),
        ("docs://{name}", "A URI with {placeholders} is a template; templates are defined in code."),
    ],
)
def test_problem_of_a_resource_uri_is_not_about_templates(uri: str, problem: str) -> None:
    errors: Errors = {}
    check_resource(Resource(uri=uri, name="terms", text="x"), errors)
    assert errors == {"uri": [problem]}
