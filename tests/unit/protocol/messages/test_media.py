"""Media types detected from bytes, and errors for a declared type that disagrees."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.messages.media import check_file, checked_type, media_type
from tests.samples.media_samples import AUDIO, FOR_MODELS, HTML, OTHER_IMAGES, SVG

IMAGES = {**FOR_MODELS, **OTHER_IMAGES}
pytestmark = pytest.mark.requirement("TOOL-25")


@pytest.mark.parametrize(
    ("kind", "found"), [*(("image", name) for name in IMAGES), *(("audio", name) for name in AUDIO)]
)
def test_type_is_detected_from_bytes(kind: str, found: str) -> None:
    data = {**IMAGES, **AUDIO}[found]
    assert checked_type(data, "", kind) == checked_type(data, found, kind) == found
    assert checked_type(data, found.upper(), kind).lower() == found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\xff\xfb\x90\0", "audio/mpeg"),
        (b"\xef\xbb\xbf \n<svg>", "image/svg+xml"),
        (b"<!DOCTYPE svg PUBLIC><svg>", "image/svg+xml"),
        (b"<?xml?><!-- <html> --><!----><SVG>", "image/svg+xml"),
        (b"\n<html>", "text/html"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\0\0\0\x18ftypisom", "video/mp4"),
        *((data, "") for data in (b"", b"a", b"BMW, a car", b"\xff\xfeh\0i\0", b"RIFF....AVI ")),
        *((data, "") for data in (b"<p>", b"<!--", b"<?", b"<!---->" * 600, b"<!--" * 1000)),
    ],
)  # fmt: skip
def test_type_of_other_bytes_is_detected(data: bytes, found: str) -> None:
    assert media_type(data) == found


@pytest.mark.parametrize(
    ("data", "declared", "kind", "sent"),
    [
        # Names that models reject are replaced by accepted ones.
        (FOR_MODELS["image/jpeg"], "image/jpg", "image", "image/jpeg"),
        (AUDIO["audio/wav"], "audio/x-wav", "audio", "audio/wav"),
        (AUDIO["audio/mpeg"], "audio/mp3", "audio", "audio/mpeg"),
        (AUDIO["audio/ogg"], "audio/ogg; codecs=opus", "audio", "audio/ogg; codecs=opus"),
        (AUDIO["audio/ogg"], "audio/opus", "audio", "audio/ogg"),
        (b"\0\0\0\x18ftypisom", "audio/mp4", "audio", "audio/mp4"),
        # The types of these bytes are not detectable.
        (b"??", "image/jxl", "image", "image/jxl"),
        (b"??", "audio/x-own", "audio", "audio/x-own"),
        (FOR_MODELS["image/png"] + b"behind the end", "", "image", "image/png"),
    ],
)
def test_declared_type_is_kept_or_normalized(data: bytes, declared: str, kind: str, sent: str) -> None:
    assert checked_type(data, declared, kind) == sent


@pytest.mark.parametrize(
    ("data", "declared", "kind", "words"),
    [
        (b"", "", "image", "image is empty"),
        (b"", "audio/wav", "audio", "audio is empty"),
        (b"a", "", "image", "not a known type of image"),
        (b"a", "image/png", "image", "not image/png"),
        (b"a", "audio/wav", "audio", "not audio/wav"),
        (
            FOR_MODELS["image/png"],
            "image/jpeg",
            "image",
            "bytes are image/png, the type is 'image/jpeg': leave",
        ),
        (AUDIO["audio/mpeg"], "audio/wav", "audio", "bytes are audio/mpeg"),
        (SVG, "image/png", "image", r"bytes are image/svg\+xml"),
        (HTML, "image/png", "image", "bytes are text/html, not image: check"),
        (HTML, "", "image", "bytes are text/html"),
        (FOR_MODELS["image/png"], "", "audio", "bytes are image/png, not audio"),
        (HTML, "text/html", "image", r"'text/html' is not a type of image: return File"),
        (b"x", "png", "image", "not a type of image"),
        *((data[:-1], name, "image", "cut off") for name, data in FOR_MODELS.items()),
        *((data[:14], "", "image", "cut off") for data in FOR_MODELS.values()),
    ],
)
def test_unusable_bytes_are_rejected_with_remedy(data: bytes, declared: str, kind: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_type(data, declared, kind)


def test_file_is_checked_only_if_declared_image_or_audio() -> None:
    for declared in ("", "application/octet-stream", "text/html", "video/mp4", "imagery"):
        check_file(b"", declared)
    for declared in ("image/png", "IMAGE/PNG", "audio/wav; x=y"):
        with pytest.raises(ValueError, match="bytes are"):
            check_file(HTML, declared)


@given(
    st.binary(max_size=64),
    st.sampled_from(["", "image/png", "audio/wav", "x"]),
    st.sampled_from(["image", "audio"]),
)
def test_arbitrary_bytes_have_type_or_error(data: bytes, declared: str, kind: str) -> None:
    with suppress(ValueError):
        assert checked_type(data, declared, kind).startswith(kind)
