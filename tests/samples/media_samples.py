"""Small files by media type, each with the first and last bytes of its format."""

from __future__ import annotations

from tests.conformance.fixture.samples import PIXEL, SILENCE

SVG = b'<?xml version="1.0"?>\n<!-- A square. -->\n<svg xmlns="http://www.w3.org/2000/svg"/>'
HTML = b"<!DOCTYPE html><title>502 Bad Gateway</title>"
FOR_MODELS = {
    "image/png": PIXEL,
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9",
    "image/gif": b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\0;",
    "image/webp": b"RIFF\x0c\0\0\0WEBPVP8L\0\0\0\0",
}
OTHER_IMAGES = {
    "image/svg+xml": SVG,
    "image/bmp": b"BM\x1a\0\0\0\0\0\0\0\x1a\0\0\0",
    "image/tiff": b"II*\0\x08\0\0\0",
    "image/vnd.microsoft.icon": b"\0\0\1\0\1\0",
    "image/avif": b"\0\0\0\x18ftypavif\0\0\0\0",
    "image/heic": b"\0\0\0\x18ftypheic\0\0\0\0",
}
AUDIO = {
    "audio/wav": SILENCE,
    "audio/mpeg": b"ID3\3\0\0\0\0\0\0",
    "audio/ogg": b"OggS\0\2",
    "audio/flac": b'fLaC\0\0\0"',
    "audio/aac": b"\xff\xf1\x50\x80",
    "audio/mp4": b"\0\0\0\x18ftypM4A \0\0\0\0",
    "audio/aiff": b"FORM\0\0\0\4AIFF",
    "audio/webm": b"\x1aE\xdf\xa3\0",
}
