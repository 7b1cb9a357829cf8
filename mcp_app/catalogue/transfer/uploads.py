"""Uploads inside a catalogue file: the name and the bytes in base64, but not the location."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from django.core.files.uploadedfile import SimpleUploadedFile

from mcp_app import conf
from mcp_app.catalogue.sources.content import files, static_content
from mcp_app.models import Resource

_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[\w.-]{1,200}")


@dataclass(frozen=True, slots=True)
class Upload:
    """The name and the bytes of an uploaded file."""

    name: str
    data: bytes

    def is_like(self, other: Upload) -> bool:
        """Return True for equal bytes and suffixes. Clients never see the other parts of a name."""
        return self.data == other.data and PurePath(self.name).suffixes == PurePath(other.name).suffixes

    def written(self) -> dict[str, str]:
        """Return the form for a catalogue file."""
        return {"name": self.name, "base64": b64encode(self.data).decode()}

    def shown(self) -> str:
        """Return the form for a list of differences."""
        digest = hashlib.sha256(self.data).hexdigest()[:12]
        return f"{self.name} ({len(self.data)} bytes, SHA-256 {digest}…)"

    def stored(self) -> SimpleUploadedFile:
        """Return the form that ``services`` takes."""
        return SimpleUploadedFile(self.name, self.data)


def upload_of(row: Resource) -> Upload | None:
    """Return the uploaded file of a resource, or None. Raises FileRefusedError if it cannot be read."""
    if not row.file:
        return None
    stored = str(row.file.name)
    limit = conf.get().max_result_bytes * 3 // 4
    data = files.read_below(static_content.upload_directory(), stored, limit)
    return Upload(PurePath(stored).name, data)


def read_upload(value: Any) -> Upload | None:
    """Parse an upload in a catalogue file. Null gives None. Raises ValueError with the remedy."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"name", "base64"}:
        raise ValueError('Must be null or an object {"name": …, "base64": …}.')
    name, encoded = value["name"], value["base64"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("The file's name may have letters, digits and _.- only, at most 200.")
    try:
        data = b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError("Its 'base64' is not base64: export the entry again.") from error
    return Upload(name, data)
