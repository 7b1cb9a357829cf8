"""Parsing of the YAML frontmatter of a SKILL.md into JSON values, which clients compare with the file."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson
import yaml

_BLOCK: Final = re.compile(r"\A---\r?\n(?P<yaml>.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
# The pattern of "name" in the agent skills specification.
_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_LONGEST_DESCRIPTION: Final = 1_024


class _Core(yaml.SafeLoader):
    """A loader for the core schema of YAML 1.2, which clients use. Dates and ``yes`` are plain text."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """Return the value of an integer. In YAML 1.2 ``010`` is ten."""
        text = str(self.construct_scalar(node))
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


_Core.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]
)
_Core.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)
_Core.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")
)
_Core.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
_Core.add_constructor("tag:yaml.org,2002:int", _Core.construct_integer)


def read(text: str, folder: str) -> dict[str, Any]:
    """Parse the frontmatter of a SKILL.md in the folder ``folder``. Raises ValueError with the problem."""
    block = _BLOCK.match(text.removeprefix("\ufeff"))
    if block is None:
        raise ValueError("it does not begin with frontmatter between two lines of '---'")
    try:
        found = _Core(block["yaml"]).get_single_data()
        orjson.dumps(found)
    except yaml.YAMLError as error:
        raise ValueError(f"its frontmatter is no YAML: {str(error).splitlines()[0]}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"its frontmatter cannot be written as JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("its frontmatter is no mapping")  # noqa: TRY004 - one exception type for all faults
    _check(found, folder)
    return found


def _check(found: dict[str, Any], folder: str) -> None:
    name, description = found.get("name"), found.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("its 'name' needs 1 to 64 small letters, digits and single hyphens")
    if name != folder:
        raise ValueError(f"its 'name' is {name!r}, but its folder is {folder!r}")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _LONGEST_DESCRIPTION:
        raise ValueError(f"its 'description' needs 1 to {_LONGEST_DESCRIPTION} characters")
