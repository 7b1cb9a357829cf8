"""Formats of requests and responses.

Bodies are strict JSON of limited size. Responses are JSON with hidden characters escaped, and all times have
a zone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import tzinfo
from typing import IO, Any, ClassVar, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils import timezone
from rest_framework import serializers
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.utils.encoders import JSONEncoder

from mcp_app import conf
from mcp_app.catalogue.schemas.strict_json import parse_json
from mcp_app.catalogue.transfer import MAX_BYTES
from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.interface.text import replace_hidden

M = TypeVar("M", bound=Model)


class TooLarge(APIException):
    """Raised if the body of a request is larger than its limit."""

    status_code = 413
    default_detail = "The body is too large."


class JsonParser(BaseParser):
    """A parser of strict JSON. Values that some supported database cannot store are refused."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the parsed value. Raises TooLarge and ParseError."""
        try:
            return parse_json(read(stream, conf.get().max_body_bytes).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ParseError("The body is not UTF-8.") from error
        except ValidationError as error:
            raise ParseError(" ".join(error.messages)) from error


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A request body that ``catalogue.transfer`` reads."""

    content: bytes
    notation: str


class _FileParser(BaseParser):
    notation: ClassVar[str]

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return a ``CatalogueFile``. Raises TooLarge."""
        return CatalogueFile(read(stream, MAX_BYTES), self.notation)


class JsonFileParser(_FileParser):
    """Parser of a catalogue file in JSON."""

    media_type = "application/json"
    notation = "json"


class YamlFileParser(_FileParser):
    """Parser of a catalogue file in YAML."""

    media_type = "application/yaml"
    notation = "yaml"


def read(stream: IO[bytes], limit: int) -> bytes:
    """Return the whole body of a request. Raises TooLarge if it is longer than ``limit`` bytes."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise TooLarge(f"The body has more than {limit} bytes.")
    return content


class JsonRenderer(BaseRenderer):
    """A renderer of indented JSON.

    Characters that hide or reorder text or control a terminal are escaped.
    """

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        text = json.dumps(data, cls=JSONEncoder, ensure_ascii=False, allow_nan=False, indent=2)
        return replace_hidden(text, lambda hidden: json.dumps(hidden)[1:-1]).encode() + b"\n"


class DateTimeField(serializers.DateTimeField):
    """The framework's field, with a time zone even if the project sets USE_TZ to False."""

    def default_timezone(self) -> tzinfo:
        return timezone.get_current_timezone()


class RowSerializer(serializers.ModelSerializer[M]):
    """The base class of serializers for this app's models."""

    serializer_field_mapping: ClassVar[dict[Any, Any]] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        AwareDateTimeField: DateTimeField,
    }
