"""Detection of media types by the first bytes of data, and the types that models accept. Nothing is decoded.

Clients pass images and audio on to models. If a media type does not match its data, the provider of the
model refuses the whole conversation.
"""

from __future__ import annotations

from typing import Final

# The image types that all providers accept.
MODEL_IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
MODEL_AUDIO: Final = frozenset(
    f"audio/{name}" for name in ("wav", "mpeg", "ogg", "flac", "aac", "mp4", "aiff", "webm")
)
_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/vnd.microsoft.icon"),
    (b"ID3", "audio/mpeg"),
    *((b"\xff" + bytes([layer]), "audio/mpeg") for layer in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"MThd", "audio/midi"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"%PDF-", "application/pdf"),
    (b"PK\3\4", "application/zip"),
)
# Types by the first and the third group of four bytes. The size of the file is between the two.
_CHUNKED: Final = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
# ISO base media files with these main brands contain images or audio. Files with other brands contain
# video.
_BRANDS: Final = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "image/heic"),
    b"M4A ": "audio/mp4",
}
_MARKUP_BYTES: Final = 4096
_KNOWN: Final = frozenset(
    (
        *(kind for _, kind in _STARTS),
        *_CHUNKED.values(),
        *_BRANDS.values(),
        "audio/webm",
        "image/bmp",
        "image/svg+xml",
    )
)
_SAME: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/x-bmp": "image/bmp",
    "image/x-ms-bmp": "image/bmp",
    "image/tif": "image/tiff",
    "image/x-icon": "image/vnd.microsoft.icon",
    "image/heif": "image/heic",
    "image/svg": "image/svg+xml",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/opus": "audio/ogg",
    "audio/vorbis": "audio/ogg",
    "application/ogg": "audio/ogg",
    "audio/x-flac": "audio/flac",
    "audio/x-aac": "audio/aac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/x-aiff": "audio/aiff",
}


def media_type(data: bytes) -> str:
    """Return the media type according to the first bytes of ``data``, or "" if it is unknown."""
    for start, found in _STARTS:
        if data.startswith(start):
            return found
    if found := _CHUNKED.get((data[:4], data[8:12]), ""):
        return found
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    if data.startswith(b"BM") and data[6:10] == bytes(4):
        return "image/bmp"
    return _markup(data[:_MARKUP_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower())


def checked_type(data: bytes, declared: str, kind: str) -> str:
    """Return the media type of an ``image`` or ``audio``: the declared type, or the type found in its data.

    Raise ValueError with the problem and the remedy if clients could not use the data as this type.
    """
    if not data:
        raise ValueError(f"the {kind} is empty: raise ToolError if there is none.")
    base = _base(declared)
    if base and not base.startswith(f"{kind}/"):
        raise ValueError(f"{declared!r} is not a type of {kind}: return File(data, {declared!r}, uri=…).")
    found = media_type(data)
    if kind == "audio" and found in ("video/mp4", "video/webm"):
        found = found.replace("video", "audio")  # Audio and video have the same container.
    if not found:
        if base and base not in _KNOWN:
            return declared
        wanted = base or f"a known type of {kind}"
        raise ValueError(f"the bytes are not {wanted}: check where they come from.")
    if not found.startswith(f"{kind}/"):
        raise ValueError(f"the bytes are {found}, not {kind}: check where they come from.")
    if base not in ("", found):
        raise ValueError(f"the bytes are {found}, the type is {declared!r}: leave the type out, or mend it.")
    if not _is_whole(data, found):
        raise ValueError(f"the {found} is cut off: its end is missing.")
    return declared if declared.lower().startswith(found) else found


def check_file(data: bytes, declared: str) -> None:
    """Check the bytes of a file that is declared as an image or audio.

    Raise ValueError as ``checked_type`` does.
    """
    kind = declared.partition("/")[0].lower()
    if kind in ("image", "audio"):
        checked_type(data, declared, kind)


def _markup(text: bytes) -> str:
    """Return the media type of markup, according to the first element after declarations and comments."""
    while text.startswith((b"<?", b"<!--")):
        end = b"?>" if text.startswith(b"<?") else b"-->"
        text = text.partition(end)[2].lstrip()
    if text.startswith((b"<svg", b"<!doctype svg")):
        return "image/svg+xml"
    return "text/html" if text.startswith((b"<html", b"<!doctype html")) else ""


def _base(declared: str) -> str:
    base = declared.partition(";")[0].strip().lower()
    return _SAME.get(base, base)


def same_type(one: str, other: str) -> bool:
    """Return True if both names stand for the same media type."""
    return _base(one) == _base(other)


def _is_whole(data: bytes, found: str) -> bool:
    """Return False if the end of an image is missing. A file may have further bytes after that end."""
    if found == "image/png":
        return data.rfind(b"IEND\xaeB`\x82") > 0
    if found == "image/jpeg":
        return data.rfind(b"\xff\xd9") > 0
    if found == "image/gif":
        return data.rfind(b"\0;") > 0
    if found == "image/webp":
        return len(data) >= 8 + int.from_bytes(data[4:8], "little")
    return True
