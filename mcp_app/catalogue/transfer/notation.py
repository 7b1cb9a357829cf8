"""The notations of a catalogue file, JSON and YAML, which hold the same values within the same bounds."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.catalogue.schemas.strict_json import load_json
from mcp_app.catalogue.transfer import yaml_notation
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused
from mcp_app.interface.text import replace_hidden

NOTATIONS: Final = ("json", "yaml")
MAX_BYTES: Final = 32 * 1024 * 1024
# The number of values is bounded as well, because small values need far more memory than their text.
MAX_VALUES: Final = 1_000_000

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def notation_of(file_name: str) -> str:
    """Return the notation for a file name's suffix, which is JSON by default."""
    return "yaml" if PurePath(file_name).suffix.lower() in (".yaml", ".yml") else "json"


def read(data: bytes, notation: str) -> Any:
    """Parse a file. Raises TransferRefused with line and column or the reason."""
    if len(data) > MAX_BYTES:
        raise _refused(f"The file has more than {MAX_BYTES} bytes: split it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"The file is not UTF-8 (byte {error.start}): save it as UTF-8.") from error
    try:
        return yaml_notation.read(text, MAX_VALUES) if notation == "yaml" else _read_json(text)
    except yaml_notation.YamlError as error:
        raise _refused(str(error)) from error
    except ValidationError as error:
        raise _refused(" ".join(error.messages)) from error


def write(document: Any, notation: str) -> str:
    """Write a document as text. Raises TransferRefused if it would be too large to import."""
    text = yaml_notation.write(document) if notation == "yaml" else _json(document)
    if len(text.encode()) > MAX_BYTES:
        raise _refused(f"The catalogue makes more than {MAX_BYTES} bytes: move large uploads by themselves.")
    return text


def _read_json(text: str) -> Any:
    bare = _STRING.sub("", text)
    if sum(map(bare.count, ",[{")) > MAX_VALUES:
        raise _refused(f"The file has more than {MAX_VALUES} values: split it.")
    return load_json(text)


def _json(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=False, indent=2)
    # Hidden characters are escaped, because a displayed file must not control the terminal or hide text.
    return replace_hidden(text, lambda hidden: json.dumps(hidden)[1:-1]) + "\n"


def _refused(text: str) -> TransferRefused:
    return TransferRefused([Problem("", "", text)])
