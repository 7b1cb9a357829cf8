"""Image and audio blocks: formats that models accept, and the substitutes for other formats."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mcp_app import Annotations, Audio, File, Image
from mcp_app.catalogue.definitions.content import to_block
from tests.samples.media_samples import AUDIO, FOR_MODELS, HTML, OTHER_IMAGES, SVG

pytestmark = pytest.mark.requirement("TOOL-25")
PNG = FOR_MODELS["image/png"]
MADE: dict[str, Any] = {"image": Image, "audio": Audio}


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("mime_type", [*FOR_MODELS, *AUDIO])
def test_model_supported_media_becomes_block_of_its_kind(mime_type: str) -> None:
    kind = mime_type.partition("/")[0]
    data = {**FOR_MODELS, **AUDIO}[mime_type]
    block = {"type": kind, "data": in_base64(data), "mimeType": mime_type}
    for made in (MADE[kind](data), MADE[kind](data, mime_type), MADE[kind](bytearray(data)), block):
        assert to_block(made) == block


@pytest.mark.parametrize("mime_type", OTHER_IMAGES)
def test_image_unsupported_by_models_becomes_embedded_resource(mime_type: str) -> None:
    data = OTHER_IMAGES[mime_type]
    for made in (
        Image(data),
        Image(data, mime_type),
        {"type": "image", "data": in_base64(data), "mimeType": mime_type},
    ):
        block = to_block(made)
        assert block["type"] == "resource"
        resource = block["resource"]
        assert resource["mimeType"] == mime_type
        assert resource["uri"].startswith("ni:///sha-256;")
        # An SVG is text, which models can read.
        assert (
            (resource.get("text") == data.decode()) if data == SVG else (resource["blob"] == in_base64(data))
        )


def test_resource_substituted_for_image_keeps_uri_and_annotations() -> None:
    for made in (
        Image(SVG, annotations=Annotations(priority=1), uri="logo://svg"),
        {"type": "image", "data": in_base64(SVG), "annotations": {"priority": 1}, "_meta": {"a": 1}},
    ):
        block = to_block(made)
        assert block["annotations"] == {"priority": 1}
    assert to_block(Image(SVG, uri="logo://svg"))["resource"]["uri"] == "logo://svg"
    assert block["_meta"] == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        Image(b""),
        Audio(b""),
        Image(PNG, "image/jpeg"),
        Image(HTML, "image/png"),
        Image(PNG[:-4]),
        Audio(PNG),
        File(HTML, "image/png", "a://b"),
        File(b"", "image/png", "a://b"),
        {"type": "image", "data": in_base64(PNG), "mimeType": "image/jpeg"},
        {"type": "image", "data": "not base64", "mimeType": "image/png"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "audio", "data": None, "mimeType": "audio/wav"},
    ],
)
def test_unusable_media_raises_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"empty|bytes are|cut off|base64"):
        to_block(value)


@pytest.mark.parametrize("value", [Image("cover.png"), Audio(None)])  # type: ignore[arg-type]
def test_media_without_bytes_raises_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="takes bytes, not"):
        to_block(value)
