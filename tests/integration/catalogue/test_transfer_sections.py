"""A further section of catalogue files, added by its registration alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.transfer import ImportForbidden, TransferRefused
from mcp_app.catalogue.transfer.sections import SECTIONS
from mcp_app.models import OfferedPermission, Prompt
from tests.integration.catalogue.transfers import bring, exported

pytestmark = pytest.mark.django_db(transaction=True)


class Toys:
    """Rows without a source, each with one value, in a table that no other test here uses."""

    name, kind, key, model = "toys", "toy", "name", "toy"

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row.role: {"color": row.permission} for row in OfferedPermission.objects.all()}

    def read(self, key: str, given: dict[str, Any]) -> dict[str, Any]:
        if given.keys() - {"color"}:
            raise ValidationError({"size": ["There is no such field."]})
        return {"color": "red"} | given

    def write(self, key: str, values: dict[str, Any] | None, actor: Any) -> None:
        if values == {"color": "broken"}:
            raise ValidationError("It broke.")
        OfferedPermission.objects.filter(role=key).delete()
        if values is not None:
            OfferedPermission.objects.create(role=key, permission=values["color"])
        revisions.bump({"tool"})


@pytest.fixture(autouse=True)
def _registered(announced: list[int]) -> Iterator[None]:
    mirror()
    OfferedPermission.objects.all().delete()
    SECTIONS.append(Toys())
    yield
    SECTIONS.pop()


def differences(**options: Any) -> list[tuple[str, str]]:
    found = bring(**options).differences
    return [(each.action, f"{each.kind} {each.key}") for each in found if each.kind == "toy"]


def toys(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"toys": list(rows), **more}


def test_section_is_exported_compared_imported_and_pruned() -> None:
    document = toys({"name": "ball"}, {"name": "kite", "color": "blue"})
    added = [("added", "toy ball"), ("added", "toy kite")]
    assert differences(document=document, dry_run=True) == added
    assert exported()["toys"] == []
    result = bring(document)
    assert result.revision > result.planned_at
    assert exported()["toys"] == [{"name": "ball", "color": "red"}, {"name": "kite", "color": "blue"}]
    assert differences(document=document) == []
    (change,) = bring(toys({"name": "ball", "color": "green"})).differences
    assert [(field.name, field.old, field.new) for field in change.fields] == [("color", "red", "green")]
    again = exported()
    again["toys"] = [{"name": "ball", "color": "green"}]
    assert differences(document=again, prune=True) == [("removed", "toy kite")]
    assert exported()["toys"] == again["toys"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"name": "ball", "size": 3}], "toy ball: size: There is no such field."),
        ([{"name": "ball"}, {"name": "ball"}], "toy ball: It is in the file twice: keep one."),
        ([{"color": "red"}], "toys[0]: name: Must be text"),
        ([7], "toys[0]: An entry must be an object."),
    ],
)
def test_problems_of_a_section_are_reported(rows: list[Any], problem: str) -> None:
    with pytest.raises(TransferRefused) as refused:
        bring(toys(*rows))
    assert str(refused.value).startswith(problem)


def test_import_of_a_section_needs_the_permission_of_its_model() -> None:
    bring(toys({"name": "ball"}))
    changed = toys({"name": "ball", "color": "blue"}, {"name": "kite"})
    with pytest.raises(ImportForbidden) as forbidden:
        bring(changed, may=lambda name: name == "mcp_app.publish_entries")
    assert forbidden.value.permissions == ["mcp_app.add_toy", "mcp_app.change_toy"]


def test_refused_write_of_a_section_undoes_the_entries() -> None:
    entry = {"name": "p", "source": "admin", "template": "Hi"}
    with pytest.raises(TransferRefused, match="It broke"):
        bring(toys({"name": "ball", "color": "broken"}, prompts=[entry]))
    assert not Prompt.objects.filter(name="p").exists()
