"""Pasted curl lines and HAR entries are read and never run (INT-15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.catalogue.sources.http.curl import PasteError, curl_line
from mcp_app.catalogue.sources.http.entered import Entered, entered_of
from mcp_app.catalogue.sources.http.har import read_pasted
from mcp_app.catalogue.sources.http.proposed import proposed_name

URL = "https://api.example.com/v1/orders"


@pytest.mark.requirement("INT-15")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (f"curl {URL}", Entered("GET", URL)),
        ("curl api.example.com/a", Entered("GET", "https://api.example.com/a")),
        (f"curl -XDELETE '{URL}?a=1&b=2'", Entered("DELETE", f"{URL}?a=1&b=2")),
        (f"curl --request PUT --url {URL} -H 'X-A: 1' -H 'User-Agent: me'", Entered("PUT", URL, "X-A: 1")),
        (f"curl -G {URL} -d a=1 --data-urlencode 'b=c d'", Entered("GET", f"{URL}?a=1&b=c+d")),
        (f"curl -I {URL}", Entered("HEAD", URL)),
        (f"curl {URL} -d 'a=1&b=2'", Entered("POST", URL, "", "form", '{\n  "a": "1",\n  "b": "2"\n}')),
        (
            f"curl {URL} --json '{{\"a\": [1]}}'",
            Entered("POST", URL, "", "json", '{\n  "a": [\n    1\n  ]\n}'),
        ),
        (
            f"curl {URL} -H 'Content-Type: text/csv' --data-raw 'a,b'",
            Entered("POST", URL, "", "text", "a,b", "text/csv"),
        ),
        (f"curl {URL} -F a=1 -F b=2", Entered("POST", URL, "", "multipart", '{\n  "a": "1",\n  "b": "2"\n}')),
        (
            f"curl {URL} -d '{{\"a\": [1]}}'",
            Entered("POST", URL, "", "json", '{\n  "a": [\n    1\n  ]\n}'),
        ),
        (f"curl {URL} \\\n  -H 'X-A: 1' \\\n  --compressed -s -L", Entered("GET", URL, "X-A: 1")),
        (
            f"curl {URL} --data-raw $'it\\'s' -H 'content-type: text/plain'",
            Entered("POST", URL, "", "text", "it's", "text/plain"),
        ),
        (f"/usr/bin/curl {URL} -o out.txt | jq . ; rm -rf /", Entered("GET", URL)),
        (f"curl {URL} $(touch /tmp/x) `id`", Entered("GET", URL)),
        (f"curl -sX PATCH {URL} -sSLH 'X-A: 1'", Entered("PATCH", URL, "X-A: 1")),
        (f"curl -sSGd a=1 {URL}#part", Entered("GET", f"{URL}?a=1")),
        (
            f"curl {URL} --data-raw $'\\ud83d\\ude00 \\ud800' -H 'content-type: text/plain'",
            Entered("POST", URL, "", "text", "😀 \ufffd", "text/plain"),
        ),
    ],
)
def test_curl_line_becomes_a_request(line: str, wanted: Entered) -> None:
    assert read_pasted(line).entered == wanted
    assert read_pasted(curl_line(wanted)).entered == wanted


def test_json_body_without_a_content_type_is_json_with_a_note() -> None:
    assert "sends it as JSON" in read_pasted(f"curl {URL} -d '[1]'").notes[0]
    assert read_pasted(f"curl {URL} --json '[1]'").notes == ()
    assert read_pasted(f"curl {URL} -d '{{1'").entered.body_mode == "form"


@pytest.mark.parametrize(
    ("method", "address", "wanted"),
    [
        ("GET", f"{URL}/7?status=open", "get_orders"),
        ("POST", "https://a.example/api/v2.1/orders/{id}/notes", "post_orders_notes"),
        ("DELETE", "https://a.example/Größe-x/6f1e2d3c-aaaa-bbbb", "delete_Groe_x"),
        ("GET", "https://a.example", ""),
        ("GET", "https://a.example/" + "x" * 90, "get_" + "x" * 60),
    ],
)
def test_name_is_proposed_from_method_and_path(method: str, address: str, wanted: str) -> None:
    assert proposed_name(Entered(method, address)) == wanted


@pytest.mark.requirement("INT-15")
@pytest.mark.parametrize(
    "secret", ["-u me:hunter2", "-b sid=hunter2", "-H 'Authorization: hunter2'", "-H 'X-API-Key: hunter2'",
               "--oauth2-bearer hunter2", "-G -d token=hunter2", "-sSu me:hunter2", "-sH 'Cookie: hunter2'",
               "-H 'Ocp-Apim-Subscription-Key: hunter2'", "-H 'X-Auth-Key: hunter2'", "-H 'X-Auth: hunter2'",
               "-G -d api%5Fkey=hunter2", "-G -d session_id=hunter2", "https://me:hunter2@api.example.com/a",
               "'https://api.example.com/#access_token=hunter2'"]
)  # fmt: skip
def test_secret_of_a_curl_line_is_left_out(secret: str) -> None:
    pasted = read_pasted(f"curl {secret} {URL}")
    assert "hunter2" not in repr(pasted)
    assert len(pasted.notes) == ("#" not in secret)


@pytest.mark.parametrize("name", ["Idempotency-Key", "X-Author", "X-Monkey", "X-Design"])
def test_ordinary_header_of_a_curl_line_is_no_secret(name: str) -> None:
    assert read_pasted(f"curl -H '{name}: a' {URL}").entered.headers == f"{name}: a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begins with curl"),
        ("wget x", "begins with curl"),
        ("curl", "no address"),
        ("curl 'x", "quote"),
        (f"curl {URL} -d @file.json", "from a file"),
        ("curl " + "x" * 100_001, "characters"),
        ("{", "Not valid JSON"),
        ("{}", "no request"),
        ('{"log": {"entries": []}}', "no entries"),
        ('{"log": {"entries": [{"response": "x"}]}}', "no request"),
        ('{"log": {"entries": [{"response": {"content": []}}]}}', "no request"),
        ("{" * 100_000, "Not valid JSON"),
    ],
)
def test_faulty_paste_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PasteError, match=reason):
        read_pasted(text)


def entry(**request: Any) -> dict[str, Any]:
    return {"request": {"method": "GET", "url": URL, "headers": [], **request}, "response": {}}


@pytest.mark.requirement("INT-15")
def test_har_entry_becomes_a_request_without_noise_and_secrets() -> None:
    headers = {
        "Accept": "application/json",
        "sec-ch-ua": "x",
        ":authority": "x",
        "Cookie": "hunter2",
        "Host": "x",
    }
    found = entry(
        method="post",
        headers=[{"name": name, "value": value} for name, value in headers.items()],
        postData={"mimeType": "application/json; charset=utf-8", "text": '{"a":1}'},
    )
    pasted = read_pasted(json.dumps(found))
    assert pasted.entered == Entered("POST", URL, "Accept: application/json", "json", '{\n  "a": 1\n}')
    assert "hunter2" not in repr(pasted)


def test_har_file_uses_the_first_json_answer() -> None:
    page = entry(url="https://api.example.com/")
    data = {**entry(), "response": {"content": {"mimeType": "application/json"}}}
    pasted = read_pasted(json.dumps({"log": {"entries": [page, data]}}))
    assert (pasted.entered.address, len(pasted.notes)) == (URL, 1)


@pytest.mark.parametrize(
    "entered",
    [
        Entered("GET", "https://a.example/x/{id}?v=2&q={q}", "A: 1\nB: {b}"),
        Entered("POST", "https://a.example/", "", "json", '{\n  "a": "{x}",\n  "b": [\n    1\n  ]\n}'),
        Entered("POST", "https://a.example/", "", "json", "{whole}"),
        Entered("POST", "https://a.example/", "", "text", "{text}", "text/csv"),
    ],
)
def test_short_form_is_read_back(entered: Entered) -> None:
    assert entered_of(entered.plan()) == entered


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": [{"argument": "a", "in": "cookie", "name": "b"}]},
        {"parameters": [{"argument": "a", "in": "query", "style": "spaceDelimited", "explode": False}]},
        {"method": "POST", "body": {"mode": "json", "template": {"a": "{b}"}}},
    ],
)
def test_plan_beyond_the_short_form_is_not_shown_in_it(change: dict[str, Any]) -> None:
    assert entered_of({"origin": "https://a.example", "method": "GET", "path": "/", **change}) is None
