from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from mcp_app.protocol.messages.icons import MAX_DATA_URI, check_icon, check_icons
from tests.samples.media_samples import FOR_MODELS

PIXEL = f"data:image/png;base64,{b64encode(FOR_MODELS['image/png']).decode()}"


@pytest.mark.requirement("ICON-01", "ICON-02")
@pytest.mark.parametrize(
    "icon",
    [
        {"src": "https://example.com/i.png"},
        {"src": "HTTPS://example.com:8443/i.png?x=1", "mimeType": "image/png", "sizes": ["48x48", "any"]},
        {"src": PIXEL, "theme": "light"},
        {"src": PIXEL, "mimeType": "image/png"},
        {"src": "data:image/jxl;base64,AAAA", "mimeType": "image/jxl"},
        {"src": "data:image/svg+xml;charset=utf-8,%3Csvg/%3E", "theme": "dark", "mimeType": "image/svg+xml"},
    ],
)
def test_valid_icons_are_accepted(icon: dict[str, Any]) -> None:
    check_icons([icon, icon])


@pytest.mark.requirement("ICON-02")
@pytest.mark.parametrize(
    "source",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " https://example.com/i.png",
        "https://example.com/i .png",
        "https://example.com/i\n.png",
        "file:///etc/passwd",
        "ftp://example.com/i.png",
        "ws://example.com/",
        "http://example.com/i.png",
        "blob:https://example.com/1",
        "//example.com/i.png",
        "/i.png",
        "",
        "https:",
        "https://",
        "https:///i.png",
        "https://[::1/i.png",
        "https://user@example.com/i.png",
        "https://user:pass@example.com/i.png",
        "https://example.com/" + "x" * 2048,
        "data:text/html,<script>",
        "data:image/png",
        "data:image/png;base64,A A",
        "data:image/png;base64," + "A" * MAX_DATA_URI,
        "data:;base64,AAAA",
    ],
)
def test_unsafe_icon_source_is_rejected(source: str) -> None:
    with pytest.raises(ValueError, match="icon"):
        check_icon({"src": source})


def test_http_icon_is_allowed_in_development() -> None:
    check_icon({"src": "http://localhost:8000/i.png"}, allow_http=True)


@pytest.mark.parametrize(
    "icon",
    [
        None,
        "https://example.com/i.png",
        {},
        {"src": 1},
        {"src": "https://a.example/", "href": "x"},
        {"src": "https://a.example/", "mimeType": "text/html"},
        {"src": "https://a.example/", "mimeType": 1},
        {"src": "https://a.example/", "sizes": "48x48"},
        {"src": "https://a.example/", "sizes": ["48"]},
        {"src": "https://a.example/", "sizes": ["0x1"]},
        {"src": "https://a.example/", "sizes": [48]},
        {"src": "https://a.example/", "theme": "blue"},
        {"src": PIXEL, "mimeType": "image/svg+xml"},
        {"src": "data:image/png;base64,AAAA"},
        {"src": "data:image/png;base64,A"},
        {"src": PIXEL.replace("png", "jpeg")},
        {"src": PIXEL[:-8]},
        {"src": "data:image/png,%3Csvg/%3E"},
    ],
)
def test_malformed_icon_is_rejected(icon: Any) -> None:
    with pytest.raises(ValueError, match="icon"):
        check_icons([icon])


@pytest.mark.parametrize("icons", [None, 1, "x", {}, {"src": "https://a.example/"}])
def test_icons_must_be_list(icons: Any) -> None:
    with pytest.raises(ValueError, match="list"):
        check_icons(icons)
