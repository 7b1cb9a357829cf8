"""The bytes that come and go: strict, bounded JSON in, JSON that hides nothing out; times with their zone."""

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
    """The body has more bytes than are read."""

    status_code = 413
    default_detail = "The body is too large."


class JsonParser(BaseParser):
    """A body of strict JSON that a database can hold."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """The value; raises TooLarge and ParseError."""
        try:
            return parse_json(read(stream, conf.get().max_body_bytes).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ParseError("The body is not UTF-8.") from error
        except ValidationError as error:
            raise ParseError(" ".join(error.messages)) from error


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A body as it came, for ``catalogue.transfer`` to read."""

    content: bytes
    notation: str


class _FileParser(BaseParser):
    notation: ClassVar[str]

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """A CatalogueFile; raises TooLarge."""
        return CatalogueFile(read(stream, MAX_BYTES), self.notation)


class JsonFileParser(_FileParser):
    """A catalogue file in JSON."""

    media_type = "application/json"
    notation = "json"


class YamlFileParser(_FileParser):
    """A catalogue file in YAML."""

    media_type = "application/yaml"
    notation = "yaml"


def read(stream: IO[bytes], limit: int) -> bytes:
    """The whole body; raises TooLarge."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise TooLarge(f"The body has more than {limit} bytes.")
    return content


class JsonRenderer(BaseRenderer):
    """Indented JSON; characters that hide or reorder text, or steer a terminal, are escaped."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        """The encoded value."""
        if data is None:
            return b""
        text = json.dumps(data, cls=JSONEncoder, ensure_ascii=False, allow_nan=False, indent=2)
        return replace_hidden(text, lambda hidden: json.dumps(hidden)[1:-1]).encode() + b"\n"


class DateTimeField(serializers.DateTimeField):
    """The framework's, with a zone also where the project has switched USE_TZ off."""

    def default_timezone(self) -> tzinfo:
        return timezone.get_current_timezone()


class RowSerializer(serializers.ModelSerializer[M]):
    """What shows rows of ours."""

    serializer_field_mapping: ClassVar[dict[Any, Any]] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        AwareDateTimeField: DateTimeField,
    }
