"""Pasted curl lines. The line is parsed and never run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote_plus, unquote_plus, urlencode

from mcp_app.catalogue.sources.http.entered import Entered

MAX_LINE: Final = 100_000
# Options with a value that does not matter for the request.
_IGNORED: Final = frozenset(
    (
        "-o", "--output", "-w", "--write-out", "-m", "--max-time", "--connect-timeout", "--retry", "-x",
        "--proxy", "--cacert", "--cert", "-E", "--key", "-c", "--cookie-jar", "-K", "--config", "--resolve",
        "-r", "--range", "-T", "--upload-file", "--limit-rate", "-y", "-Y", "-z", "-A", "--user-agent", "-e",
        "--referer",
    )
)  # fmt: skip
_DATA: Final = frozenset(("-d", "--data", "--data-raw", "--data-ascii", "--data-binary", "--json"))
_FORM: Final = frozenset(("-F", "--form", "--form-string"))
_SECRETS: Final = {
    "-b": "Cookie",
    "--cookie": "Cookie",
    "-u": "Authorization",
    "--user": "Authorization",
    "--oauth2-bearer": "Authorization",
}
_VALUED: Final = frozenset(
    (
        *_DATA, *_FORM, *_SECRETS, "-X", "--request", "-H", "--header", "--data-urlencode", "--url",
        "--url-query",
    )
)  # fmt: skip
_SECRET: Final = re.compile(
    r"authorization|cookie|proxy-authorization|(?!idempotency-)(.*[-_])?(key|sig|sid|jwt|pwd)"
    r"|(.*[-_])?auth([-_].*)?|.*(api[-_]?key|token|secret|passw|passphrase|signature|credential|session).*",
    re.IGNORECASE,
)
_USER: Final = "user name and password"
_TAKEN_AS_JSON: Final = "The body is JSON, so the tool sends it as JSON. curl would send it as a form."
# Headers that the server sets itself or that only browsers send.
_NOISE: Final = re.compile(
    r":.*|host|connection|content-length|accept-encoding|accept-language|user-agent|referer|origin|priority"
    r"|pragma|cache-control|dnt|te|expect|upgrade.*|sec-.*|if-.*|x-forwarded-.*|forwarded|mcp-.*|keep-alive"
    r"|transfer-encoding",
    re.IGNORECASE,
)


class PasteError(ValueError):
    """A pasted text that is not a request. The text says why."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """The request of a pasted text. ``notes`` name the parts that were left out; they contain no secret."""

    entered: Entered
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Line:
    method: str = ""
    url: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    form: list[str] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    is_json: bool = False
    as_query: bool = False
    left_out: list[str] = field(default_factory=list)


def read_curl(text: str) -> Pasted:
    """Return the request of a curl line. Raises PasteError."""
    if len(text) > MAX_LINE:
        raise PasteError(f"The line has more than {MAX_LINE} characters.")
    line = _parsed(_words(text))
    if not line.url:
        raise PasteError("The line has no address.")
    address = line.url.partition("#")[0]
    url = address if "://" in address else f"https://{address}"
    query = [*line.query, *(line.data if line.as_query else [])]
    if query:
        url += ("&" if "?" in url else "?") + "&".join(query)
    headers = with_headers(line.headers, line.left_out)
    url = without_secrets(url, line.left_out)
    typed = {name.lower(): value for name, value in line.headers}
    guessed = "content-type" not in typed and not line.is_json and _looks_like_json(line)
    line.is_json = line.is_json or guessed
    mode, body, content_type = _body(line, typed)
    method = line.method or ("POST" if mode != "none" else "GET")
    headers = [pair for pair in headers if mode == "none" or pair[0].lower() != "content-type"]
    shown = "\n".join(f"{name}: {value}" for name, value in headers)
    notes = (*((_TAKEN_AS_JSON,) if guessed else ()), *notes_of(line.left_out))
    return Pasted(Entered(method.upper(), url, shown, mode, body, content_type), notes)


def curl_line(entered: Entered) -> str:
    """Return a curl line with the request of a pasted text. It lacks the secrets that were left out."""
    words = ["curl", "-X", entered.method, entered.address]
    for header in entered.headers.splitlines():
        words += ["-H", header]
    if entered.body_mode == "multipart":
        for name, value in json.loads(entered.body).items():
            words += ["-F", f"{name}={value}"]
    elif entered.body_mode == "form":
        words += ["--data-raw", urlencode(json.loads(entered.body))]
    elif entered.body_mode != "none":
        kind = entered.content_type or ("application/json" if entered.body_mode == "json" else "text/plain")
        words += ["-H", f"Content-Type: {kind}", "--data-raw", entered.body]
    return shlex.join(words)


def notes_of(left_out: list[str]) -> tuple[str, ...]:
    """Return the sentences about secrets that were left out."""
    if not left_out:
        return ()
    names = ", ".join(dict.fromkeys(left_out))
    return (f"Left out, because it may be secret: {names}. Create a credential and choose it below.",)


def without_secrets(url: str, left_out: list[str]) -> str:
    """Return an address without user name, password, secret query parameters and fragment.

    The names of the secrets are added to ``left_out``.
    """
    base, mark, query = url.partition("#")[0].partition("?")
    scheme, slashes, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        left_out.append(_USER)
        base = f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path}"
    kept = []
    for pair in query.split("&"):
        name = unquote_plus(pair.partition("=")[0])
        if _SECRET.fullmatch(name):
            left_out.append(name)
        else:
            kept.append(pair)
    return f"{base}{mark if any(kept) else ''}{'&'.join(kept)}"


def with_headers(headers: list[tuple[str, str]], left_out: list[str]) -> list[tuple[str, str]]:
    """Return the headers that a tool needs. The names of secret ones are added to ``left_out``."""
    found = []
    for name, value in headers:
        if _SECRET.fullmatch(name):
            left_out.append(name)
        elif not _NOISE.fullmatch(name):
            found.append((name, value))
    return found


def body_of(text: str, content_type: str) -> tuple[str, str, str]:
    """Return mode, body and content type of the short form for a body of some type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return "form", json.dumps(dict(parse_qsl(text, keep_blank_values=True)), indent=2), ""
    if kind == "application/json" or kind.endswith("+json"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return "text", text, content_type
        return (
            "json",
            json.dumps(value, indent=2, ensure_ascii=False),
            "" if kind == "application/json" else content_type,
        )
    return "text", text, content_type


def _words(text: str) -> list[str]:
    # Line continuations of shells: \\ at the end of a line, ^ on Windows, ` in PowerShell.
    joined = re.sub(r"[\\^`]\r?\n", " ", text.strip())
    joined = re.sub(r"(?<=\s)\$'((?:[^'\\]|\\.)*)'", _ansi, joined)
    try:
        words = shlex.split(joined)
    except ValueError:
        raise PasteError("The line has a quote without an end.") from None
    if not words or words[0].rpartition("/")[2] not in ("curl", "curl.exe"):
        raise PasteError("Paste a line that begins with curl, or an entry of a HAR file.")
    return words[1:]


def _ansi(match: re.Match[str]) -> str:
    """Return a text in the quotes of $'…' in plain quotes."""
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), match[1])
    return shlex.quote(re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), plain))


def _parsed(words: list[str]) -> _Line:
    line, rest = _Line(), iter(words)
    for word in rest:
        if word in ("|", ";", "&&", ">", "||"):
            break
        if not word.startswith("-") or word == "-":
            line.url = line.url or word
        else:
            for name, value in _options(word, rest):
                _take(line, name, value)
    return line


def _options(word: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a word with their values, which may be part of the word: -sXPOST, --request=POST.

    Only the last letter of a word such as ``-sSu`` can have a value.
    """
    long, mark, value = word.partition("=")
    if word.startswith("--"):
        if mark and long in _VALUED:
            yield long, value
        else:
            yield word, next(rest, "") if word in _VALUED | _IGNORED else ""
        return
    for place, letter in enumerate(word[1:], 2):
        name = f"-{letter}"
        if name in _VALUED | _IGNORED:
            yield name, word[place:] or next(rest, "")
            return
        yield name, ""


def _take(line: _Line, name: str, value: str) -> None:
    if name in ("-H", "--header"):
        header, mark, text = value.partition(":")
        if mark and text.strip():
            line.headers.append((header.strip(), text.strip()))
    elif name in _DATA:
        _take_data(line, name, value)
    elif name == "--data-urlencode":
        field_name, mark, text = value.partition("=")
        line.data.append(f"{field_name}={quote_plus(text)}" if mark else quote_plus(value))
    elif name in _FORM:
        line.form.append(value)
    elif name == "--url-query":
        line.query.append(value)
    elif name in _SECRETS:
        line.left_out.append(_SECRETS[name])
    else:
        _take_switch(line, name, value)


def _take_data(line: _Line, name: str, value: str) -> None:
    if value.startswith("@") and name != "--data-raw":
        raise PasteError("The line reads its body from a file: paste the content in its place.")
    line.data.append(value)
    line.is_json = line.is_json or name == "--json"


def _take_switch(line: _Line, name: str, value: str) -> None:
    if name in ("-X", "--request"):
        line.method = value
    elif name == "--url":
        line.url = value
    elif name in ("-G", "--get"):
        line.as_query = True
    elif name in ("-I", "--head"):
        line.method = "HEAD"


def _looks_like_json(line: _Line) -> bool:
    """Return True if a body without a content type is a JSON object or array."""
    text = "&".join(line.data).strip()
    if line.form or line.as_query or not text.startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def _body(line: _Line, headers: dict[str, str]) -> tuple[str, str, str]:
    if line.form:
        pairs = dict(part.partition("=")[::2] for part in line.form)
        return "multipart", json.dumps(pairs, indent=2, ensure_ascii=False), ""
    if not line.data or line.as_query:
        return "none", "", ""
    usual = "application/json" if line.is_json else "application/x-www-form-urlencoded"
    text = ("" if line.is_json else "&").join(line.data)
    return body_of(text, headers.get("content-type", usual))
