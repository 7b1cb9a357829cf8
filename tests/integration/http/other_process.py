"""Another process of a LiveServer's installation, such as a command, the admin or a job."""

from __future__ import annotations

import json
import sys
import traceback
from types import TracebackType
from typing import Any, Self

from tests.servers.live import LiveServer

PRELUDE = """
import time
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from mcp_app.auth.api_keys import issue_api_key, revoke_api_key
from mcp_app.catalogue.changes.services import set_enabled
from mcp_app.models import ApiKey, Tool
"""


class OtherProcess:
    """A process that runs Python code inside the installation; one start serves many runs."""

    def __init__(self, server: LiveServer) -> None:
        self._child = server.installation.open("tests.integration.http.other_process")

    def run(self, code: str, **names: Any) -> Any:
        """Run ``code`` with these names and return the JSON value of its variable ``result``."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps({"code": code, "names": names}).encode() + b"\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        if "fault" in answer:
            raise AssertionError(answer["fault"])
        return answer["result"]

    def issue_key(self, user: str, seconds: float | None = None) -> str:
        """Issue an API key for a user, and create the user if missing."""
        return str(self.run(
            "user, _ = get_user_model().objects.get_or_create(username=user)\n"
            "ends = None if seconds is None else timezone.now() + timedelta(seconds=seconds)\n"
            "row, result = issue_api_key(user=user, name='test')\n"
            "ApiKey.objects.filter(pk=row.pk).update(expires_at=ends)",
            user=user, seconds=seconds,
        ))  # fmt: skip

    def revoke_key(self, secret: str) -> None:
        self.run("revoke_api_key(key=ApiKey.objects.filter(prefix=secret[:12]).latest('pk'))", secret=secret)

    def switch(self, tool: str, *, on: bool) -> float:
        """Enable or disable a tool; return the wall-clock time just after the commit."""
        code = "set_enabled(entries=Tool.objects.filter(name=tool), enabled=on, actor=None)"
        return float(self.run(f"{code}; result = time.time()", tool=tool, on=on))

    def close(self) -> None:
        self._child.communicate(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    """Serve runs, one line each, until the input ends."""
    known: dict[str, Any] = {}
    exec(PRELUDE, known)
    for line in sys.stdin:
        job = json.loads(line)
        names = {**known, **job["names"]}
        try:
            exec(job["code"], names)
            answer = {"result": names.get("result")}
        except Exception:  # noqa: BLE001 - every failure there is reported here
            answer = {"fault": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
