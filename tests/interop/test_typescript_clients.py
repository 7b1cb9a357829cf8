"""Both lines of the official TypeScript client list and call everything in the demo."""

from __future__ import annotations

import json

import pytest

from tests.interop import npm, walk
from tests.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]


@pytest.mark.requirement("CONF-03")
@pytest.mark.parametrize(
    ("script", "more"), [("sdk.mjs", ()), ("client.mjs", ("legacy",)), ("client.mjs", ("auto",))]
)
def test_the_typescript_client_lists_and_calls_everything(
    live: LiveServer, page_url: str, script: str, more: tuple[str, ...]
) -> None:
    report = npm.run_script(script, live.url, json.dumps(walk.arguments(page_url)), *more)
    walk.check(report)
    walk.check_progress(report)
    walk.check_more(report)
