"""The picture of docs/architecture.md shows every room of ``mcp_app`` and the direction of every import."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
SVG = "{http://www.w3.org/2000/svg}"
# Modules that the contract of layers leaves out as well.
NOT_DRAWN = {"contrib", "migrations", "app_template"}


def rooms() -> dict[str, ET.Element]:
    """Return the box of each drawn room by the name written in it."""
    groups = ET.parse(PICTURE).getroot().iter(f"{SVG}g")
    found = [group for group in groups if group.get("class", "").startswith("room")]
    names = [str(group.findtext(f"{SVG}text")) for group in found]
    assert names == [group.get("id") for group in found]
    assert len({*names}) == len(names), "a room is drawn twice"
    return {name: box for name, group in zip(names, found, strict=True) for box in group.iter(f"{SVG}rect")}


def edge(box: ET.Element, side: str, size: str) -> float:
    return float(box.get(side, "")) + float(box.get(size, ""))


@pytest.fixture(scope="module")
def imports() -> set[tuple[str, str]]:
    """Return the pairs of rooms of which one imports from the other, type hints included."""
    graph = grimp.build_graph("mcp_app", cache_dir=None)
    rooms_of = {name: name.split(".")[1] for name in graph.modules if "." in name}
    return {
        (room, rooms_of[other])
        for name, room in rooms_of.items()
        for other in graph.find_modules_directly_imported_by(name)
        if other in rooms_of and rooms_of[other] != room
    }


def test_every_room_is_drawn() -> None:
    package = ROOT / "mcp_app"
    modules = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms().keys() == (modules | packages) - NOT_DRAWN


def test_every_import_points_to_a_lower_room(imports: set[tuple[str, str]]) -> None:
    drawn = rooms()
    upward = [
        f"{room} imports {other}"
        for room, other in sorted(imports)
        if room in drawn
        and other in drawn
        and float(drawn[other].get("y", "")) < edge(drawn[room], "y", "height")
    ]
    assert upward == []


def test_rooms_of_a_row_do_not_overlap() -> None:
    rows: dict[float, list[ET.Element]] = {}
    for box in rooms().values():
        rows.setdefault(float(box.get("y", "")), []).append(box)
    for left, right in (pair for row in rows.values() for pair in pairwise(row)):
        assert edge(left, "x", "width") < float(right.get("x", ""))


def test_every_arrow_is_an_import_and_ends_at_its_rooms(imports: set[tuple[str, str]]) -> None:
    drawn = rooms()
    arrows = [path for path in ET.parse(PICTURE).getroot().iter(f"{SVG}path") if path.get("class") == "arrow"]
    assert arrows
    for arrow in arrows:
        ends = arrow.get("data-from", ""), arrow.get("data-to", "")
        assert ends in imports
        heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", arrow.get("d", ""))]
        for name, height in zip(ends, (heights[0], heights[-1]), strict=True):
            assert float(drawn[name].get("y", "")) < height < edge(drawn[name], "y", "height")


def test_every_folder_of_a_room_is_in_the_table() -> None:
    table = (
        (ROOT / "docs/architecture.md").read_text().partition("| Room | Folders |")[2].partition("\n\n")[0]
    )
    named = set(re.findall(r"`([a-z]\w+)`", table))
    folders = {path.parent for path in (ROOT / "mcp_app").glob("*/*/__init__.py")}
    expected = {name for path in folders for name in (path.name, path.parent.name)}
    ignored = {
        "management",
        "commands",
        "contrib",
        "demo",
        "skills",
        "web_tools",
        "migrations",
        "app_template",
    }
    assert expected - ignored <= named
    assert named <= {path.name for path in (ROOT / "mcp_app").rglob("*") if path.is_dir()}
