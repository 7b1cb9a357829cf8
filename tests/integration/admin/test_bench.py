"""The test bench pages: access, page data, tokens, snippets and logged runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from mcp_app.admin.entries.bench import NO_RUN
from mcp_app.auth.bench import bench_key, find_bench_principal
from mcp_app.models import AuditEvent, Message, Prompt, Resource, Session, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import RAW_HIDDEN, RAW_MARKUP, Seed, call

pytestmark = pytest.mark.postgres


def grant(user: Any, *codenames: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))


def told(client: Client, address: str) -> dict[str, Any]:
    """Return the data that the page passes to its script."""
    answer = client.get(address)
    assert answer.status_code == 200, address
    text = answer.content.decode()
    start = text.index('<script id="mcp-bench" type="application/json">')
    return dict(json.loads(text[text.index(">", start) + 1 : text.index("</script>", start)]))


def benches(seeded: Seed) -> list[str]:
    models: list[tuple[str, Any]] = [("tool", Tool), ("prompt", Prompt), ("resource", Resource)]
    pages = [page(name, "try", row.pk) for name, model in models for row in model.objects.all()]
    return [*pages, page("resourcetemplate", "try", seeded.template.pk)]


def bench_run(user: Any, by: Any, number: int, **more: Any) -> Message:
    """Create a logged run of ``echo`` by user ``by`` acting as ``user``."""
    session = Session.objects.create(
        id=f"bench-{number}",
        principal=bench_key(by.pk, user.pk),
        user=user,
        protocol_version="2025-11-25",
        client_name="Test bench",
        created_at=timezone.now(),
        last_seen_at=timezone.now(),
    )
    return call(session, number, **more)


def test_bench_requires_try_and_view_permissions(root: Client, client_of: ClientOf, seeded: Seed) -> None:
    viewer, outsider = client_of("viewer"), client_of("outsider")
    grant(seeded.outsider, "try_entries")
    for address in benches(seeded):
        assert root.get(address).status_code == 200, address
        assert viewer.get(address).status_code == 403, address
        assert outsider.get(address).status_code == 403, address
    grant(seeded.viewer, "try_entries")
    for address in benches(seeded):
        assert client_of("viewer").get(address).status_code == 200, address


def test_anonymous_bench_requests_redirect_to_login(client: Client, seeded: Seed) -> None:
    for place in ("try", "try_token", "try_snippets", "try_run"):
        answer = client.post(page("tool", place, seeded.echo.pk))
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/admin/login/")


def test_bench_escapes_stored_text(root: Client, seeded: Seed) -> None:
    for address in benches(seeded):
        text = root.get(address).content.decode()
        assert not [raw for raw in (*RAW_MARKUP, *RAW_HIDDEN) if raw in text], address


def test_bench_button_requires_the_try_permission(root: Client, viewer: Client, seeded: Seed) -> None:
    address = page("tool", "change", seeded.echo.pk)
    link = page("tool", "try", seeded.echo.pk)
    assert link in root.get(address).content.decode()
    assert link not in viewer.get(address).content.decode()


def test_bench_of_unknown_entry_redirects_to_the_list(root: Client, seeded: Seed) -> None:
    assert root.get(page("tool", "try", 99_999))["Location"] == page("tool", "changelist")
    assert root.post(page("tool", "try_token", 99_999)).status_code == 404


def test_bench_form_has_the_schema_of_the_entry(root: Client, seeded: Seed) -> None:
    def schema(model: str, pk: int) -> Any:
        return told(root, page(model, "try", pk))["schema"]

    assert schema("tool", seeded.echo.pk) == seeded.echo.input_schema
    assert "text" not in schema("tool", seeded.preset.pk).get("properties", {})
    prompt = schema("prompt", seeded.own_prompt.pk)
    assert prompt["properties"]["audience"] == {"type": "string", "description": "Who reads it"}
    assert prompt["required"] == ["audience", "text"]
    assert schema("resource", seeded.own_resource.pk)["properties"] == {}
    assert schema("resourcetemplate", seeded.template.pk)["required"] == ["name"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"enabled": False}, "This entry is disabled"),
        ({"missing": True}, "the code that defined it is not installed"),
        ({"permission": "auth.view_group"}, "Callers need the permission auth.view_group"),
    ],
)
def test_bench_explains_why_a_run_would_fail(
    change: dict[str, Any], words: str, client_of: ClientOf, seeded: Seed
) -> None:
    grant(seeded.viewer, "try_entries")
    address = page("tool", "try", seeded.echo.pk)
    assert words not in client_of("viewer").get(address).content.decode()
    Tool.objects.filter(pk=seeded.echo.pk).update(**change)
    assert words in client_of("viewer").get(address).content.decode()


def test_bench_token_requires_post_and_csrf_token(root: Client, seeded: Seed) -> None:
    address = page("tool", "try_token", seeded.echo.pk)
    answer = root.post(address)
    assert "no-store" in answer["Cache-Control"]
    principal = find_bench_principal(answer.json()["token"])
    assert principal is not None
    assert (principal.user_id, answer.json()["user"]) == (seeded.root.pk, "root")
    assert root.get(address).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    assert strict.post(address).status_code == 403


def test_bench_token_for_another_user_requires_its_permission(client_of: ClientOf, seeded: Seed) -> None:
    address = page("tool", "try_token", seeded.echo.pk)
    grant(seeded.viewer, "try_entries")

    def ask(name: str) -> tuple[int, Any]:
        answer = client_of("viewer").post(address, {"user": name})
        return answer.status_code, answer.json().get("error")

    # Without that permission, the response does not reveal which users exist.
    for name in ("outsider", "root", "nobody"):
        assert ask(name) == (403, "You may not run entries as another user.")
    grant(seeded.viewer, "try_as_others")
    assert ask("outsider") == (200, None)
    assert ask("root") == (403, "Only a superuser may act as a superuser.")
    assert ask("nobody") == (403, "There is no such user.")
    event = AuditEvent.objects.get(action="bench.run_as")
    assert (event.actor, event.object_key) == (seeded.viewer, "outsider")


def test_bench_offers_users_to_act_as_by_permission(client_of: ClientOf, seeded: Seed) -> None:
    address = page("tool", "try", seeded.echo.pk)
    grant(seeded.viewer, "try_entries")
    assert "mcp-bench-people" not in client_of("viewer").get(address).content.decode()
    grant(seeded.viewer, "try_as_others")
    text = client_of("viewer").get(address).content.decode()
    assert '<option value="outsider">' in text
    assert '<option value="root">' not in text
    assert '<option value="viewer">' not in text


def test_snippets_contain_the_form_values(root: Client, seeded: Seed) -> None:
    address = page("tool", "try_snippets", seeded.echo.pk)
    body = {"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "it's"}}}
    answer = root.post(address, json.dumps(body), content_type="application/json")
    assert [each["title"] for each in answer.json()["snippets"]] == ["curl", "Python SDK"]
    assert "http://127.0.0.1:8000/mcp" in answer.json()["snippets"][0]["text"]


@pytest.mark.parametrize(
    "body",
    ["", "[", "[]", "{}", '{"method": "ping", "params": {}}', '{"method": "tools/call", "params": {}}',
     '{"method": [], "params": {}}', '{"method": "tools/call", "params": []}'],
)  # fmt: skip
def test_invalid_snippet_request_returns_400(body: str, root: Client, seeded: Seed) -> None:
    answer = root.post(page("tool", "try_snippets", seeded.echo.pk), body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_bench_reads_arguments_from_the_url(root: Client, seeded: Seed) -> None:
    address = page("tool", "try", seeded.echo.pk)
    assert told(root, address + '?arguments={"text":"hi"}')["arguments"] == {"text": "hi"}
    for wrong in ("[1]", "{", "1", ""):
        data = told(root, f"{address}?arguments={wrong}")
        assert (data["arguments"], data["trouble"]) == (
            None,
            "The arguments in the address are not a JSON object.",
        )


def test_bench_loads_and_compares_logged_calls(root: Client, seeded: Seed) -> None:
    one, other = call(seeded.session, 201), call(seeded.session, 202)
    data = told(root, f"{page('tool', 'try', seeded.echo.pk)}?message={one.pk}&compare={other.pk}")
    assert data["first"]["arguments"] == data["second"]["arguments"] == {"text": "hi"}
    assert data["first"]["answer"]["result"]["content"] == [{"type": "text", "text": "hi"}]
    assert (data["first"]["message"], data["first"]["whole"]) == (one.pk, True)


def test_incomplete_or_foreign_logged_run_is_not_replayed_whole(root: Client, seeded: Seed) -> None:
    address = page("tool", "try_run", seeded.echo.pk)
    cut = call(
        seeded.session, 203, payload='{"method": "tools/call", "params": {"name": "ec… [99 bytes, cut]'
    )
    other = call(seeded.session, 204, payload='{"params": {"name": "add", "arguments": {}}}')
    secret = call(
        seeded.session, 205, payload='{"params": {"name": "echo", "arguments": {"token": "[redacted]"}}}'
    )
    assert root.get(address, {"message": secret.pk}).json()["whole"] is False
    for wrong in (cut.pk, other.pk, 999_999, "x", "", "9" * 30, "-1"):
        answer = root.get(address, {"message": wrong})
        assert (answer.status_code, answer.json()) == (404, {"error": NO_RUN})


def test_template_variables_are_parsed_from_a_logged_uri(root: Client, seeded: Seed) -> None:
    logged = call(
        seeded.session,
        206,
        method="resources/read",
        payload='{"params": {"uri": "demo://greeting/Ada%20L"}}',
    )
    run = root.get(page("resourcetemplate", "try_run", seeded.template.pk), {"message": logged.pk})
    assert run.json()["arguments"] == {"name": "Ada L"}
    own = root.get(page("resource", "try_run", seeded.own_resource.pk), {"message": logged.pk})
    assert own.status_code == 404


def test_bench_history_lists_own_runs_including_as_others(
    root: Client, client_of: ClientOf, seeded: Seed
) -> None:
    root.post(page("tool", "try_token", seeded.echo.pk), {"user": "viewer"})
    mine = bench_run(seeded.root, seeded.root, 301)
    as_other = bench_run(seeded.viewer, seeded.root, 302)
    bench_run(seeded.viewer, seeded.viewer, 303)
    bench_run(seeded.root, seeded.root, 304, payload='{"params": {"name": "add"}}', target="add")
    shown = told(root, page("tool", "try", seeded.echo.pk))["runs"]
    assert [(run["message"], run["principal"]) for run in shown] == [
        (as_other.pk, "root as viewer (test bench)"),
        (mine.pk, "root (test bench)"),
    ]


def test_logged_runs_require_the_message_permission(client_of: ClientOf, seeded: Seed) -> None:
    grant(seeded.viewer, "try_entries")
    message = bench_run(seeded.viewer, seeded.viewer, 305)
    address = page("tool", "try", seeded.echo.pk)
    assert told(client_of("viewer"), address)["runs"]
    seeded.viewer.user_permissions.remove(Permission.objects.get(codename="view_message"))
    data = told(client_of("viewer"), f"{address}?message={message.pk}")
    assert (data["runs"], data["first"], data["trouble"]) == ([], None, NO_RUN)
    run = client_of("viewer").get(page("tool", "try_run", seeded.echo.pk), {"message": message.pk})
    assert run.status_code == 404


def test_bench_offers_a_preset_with_fixed_arguments(root: Client, client_of: ClientOf, seeded: Seed) -> None:
    own = told(root, page("tool", "try", seeded.preset.pk))["preset"]
    assert own == {
        "url": page("tool", "add"),
        "tool": seeded.echo.pk,
        "fixed": {"text": "Hello, world"},
    }
    grant(seeded.viewer, "try_entries")
    assert told(client_of("viewer"), page("tool", "try", seeded.echo.pk))["preset"] is None
    assert told(root, page("prompt", "try", seeded.own_prompt.pk))["preset"] is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [('{"text":"<b>"}', "{\n  &quot;text&quot;: &quot;&lt;b&gt;&quot;\n}"), ("{wrong", "{}")],
)
def test_preset_form_opens_with_arguments_from_the_url(
    given: str, shown: str, root: Client, seeded: Seed
) -> None:
    answer = root.get(page("tool", "add"), {"preset_of": seeded.echo.pk, "fixed_arguments": given})
    assert answer.status_code == 200
    text = answer.content.decode()
    start = text.index('name="fixed_arguments"')
    assert text[text.index(">", start) + 1 : text.index("</textarea>", start)].strip() == shown
