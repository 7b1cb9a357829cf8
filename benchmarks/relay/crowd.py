"""100 other servers with 50 published tools each, which nobody calls.

``python -m benchmarks.relay.crowd`` counts the work of frequent requests without and beside them, as
``benchmarks.limits.work`` does. With ``--start`` it measures the processor time in which a process loads the
application and its catalogue, in rounds that alternate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.hops.__main__ import ROOT
from benchmarks.limits.work import report

SERVERS, TOOLS = 100, 50
# No request leaves for these addresses: they are not on the public internet.
FILL = f"""
from mcp_app.models import Tool, Upstream

upstreams = [
    Upstream(name=f"server-{{n}}", prefix=f"s{{n}}", url=f"http://10.0.0.{{n + 1}}/mcp", version="2025-11-25")
    for n in range({SERVERS})
]
Upstream.objects.bulk_create(upstreams)
schema = {{
    "type": "object",
    "properties": {{
        "query": {{"type": "string", "description": "The words to look for.", "maxLength": 200}},
        "limit": {{"type": "integer", "minimum": 1, "maximum": 100, "default": 10}},
    }},
    "required": ["query"],
}}
known = {{"definition": "0" * 64}}
Tool.objects.bulk_create(
    Tool(
        source="upstream", name=f"s{{n}}_tool_{{m}}", description="Search the records of the server.",
        input_schema=schema, request={{"upstream": f"server-{{n}}", **known, "tool": f"tool_{{m}}"}},
    )
    for n in range({SERVERS}) for m in range({TOOLS})
)
"""
STATES = {"no servers": "", "100 servers": FILL}
ROUNDS = 5
START = """
import time
import django
django.setup()
from mcp_app.catalogue.snapshots import current_snapshot
before = time.process_time()
found = current_snapshot.loaded()
print(len(found.tools), time.process_time(), time.process_time() - before)
"""


def measure_start() -> None:
    """Print the processor time of a start without and with the servers: the best of the rounds."""
    with tempfile.TemporaryDirectory(prefix="crowd-") as folder:
        installations = {state: {**os.environ, "DATA_DIR": str(Path(folder, state))} for state in STATES}
        empty, filled = (Path(folder, state) for state in STATES)
        empty.mkdir()
        setup = "import django; django.setup()\n"
        migrate = "from django.core.management import call_command; call_command('migrate', verbosity=0)"
        _run(setup + migrate, installations[empty.name])
        shutil.copytree(empty, filled)
        _run(setup + FILL, installations[filled.name])
        best: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for state, environment in installations.items():
                found = [float(number) for number in _run(START, environment).split()]
                best[state] = min(best.get(state, found), found, key=lambda each: each[1])
    for state, (tools, whole, catalogue) in best.items():
        print(
            f"{state:<14}{tools:>7.0f} tools  start {whole * 1e3:.0f} ms, catalogue {catalogue * 1e3:.0f} ms"
        )


def _run(code: str, environment: dict[str, str]) -> str:
    environment = {"SECRET_KEY": "only for the measurement, without a server", **environment}
    environment["DJANGO_SETTINGS_MODULE"] = "benchmarks.hops.settings"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    if "--start" in sys.argv:
        measure_start()
    else:
        report(STATES)
