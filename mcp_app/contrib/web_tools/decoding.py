"""Decoding of a page's bytes in any encoding, which never fails."""

from __future__ import annotations

import codecs
import re

# Python's text codecs that decode in linear time. Other codecs (zip, idna, punycode, utf-7) are unsafe here.
_NAMES = re.compile(
    r"(utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d{1,2}|cp(125\d|437|85\d|866|874|932|949|950)|koi8-[rut]|mac-[a-z]+|"
    r"shift_jis\w*|euc_\w+|iso2022_\w+|gb2312|gbk|gb18030|big5\w*|tis-620)"
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^>]{0,256}?charset\s{0,8}=\s{0,8}[\"']?([\w.:-]{1,40})", re.IGNORECASE)


def decode(body: bytes, charset: str = "") -> str:
    """Decode ``body`` with the first usable encoding.

    The order is: byte order mark, ``charset``, meta tag, UTF-8, Windows-1252.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    meta = _META.search(body[:2_048])
    for name in (charset, meta[1].decode("ascii") if meta else ""):
        if codec := _codec(name):
            return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _codec(name: str) -> str | None:
    try:
        known = codecs.lookup(name).name if name else ""
    except (LookupError, ValueError):
        return None
    if known == "iso8859-1":  # Latin-1 means Windows-1252 on the web (WHATWG Encoding, labels).
        return "cp1252"
    return known if _NAMES.fullmatch(known) else None
