"""Another process of the installation, such as a worker, that runs code for a test immediately."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import traceback
from typing import Any

from tests.servers.live import LiveServer


class AnotherProcess:
    """A process that runs Python code inside the Django of a LiveServer, for many runs."""

    def __init__(self, server: LiveServer) -> None:
        self._process = server.installation.open("tests.integration.features.another_process")

    def run(self, code: str, **values: Any) -> Any:
        """Run ``code`` with these JSON values as names; return its variable ``result``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"code": textwrap.dedent(code), "values": values}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        self._process.communicate(15)


def _serve() -> None:
    from mcp_app.catalogue.changes import services
    from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool

    known = {
        "services": services,
        "Tool": Tool,
        "Prompt": Prompt,
        "Resource": Resource,
        "ResourceTemplate": ResourceTemplate,
    }
    # Output of the code must not be parsed as a result.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        names: dict[str, Any] = {**known, **request["values"]}
        try:
            exec(request["code"], names)
            answer = {"result": names.get("result")}
        except Exception:  # noqa: BLE001 - the test is shown whatever it was
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
