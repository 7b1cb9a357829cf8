"""``make dev``: edits of an app outside of this project are served; sessions, streams and calls continue."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from tests.clients.raw_http import EventStream, Mcp
from tests.clients.raw_modern import Modern
from tests.process.installation import START_SECONDS, Installation, wait_until
from tests.process.test_own_apps import manage

pytestmark = pytest.mark.process
pytest.importorskip("watchfiles", reason="requirements-dev.txt is not installed")

# The promise is 3 seconds. New processes import everything in that time, slower on a busy machine.
SERVED_SECONDS = 30.0

TOOLS = '''
import time
from pathlib import Path

from mcp_app import tool


@tool
def word() -> str:
    """WORD."""
    return "WORD"


@tool(background=True)
def word_when(file: str) -> str:
    """The word, once there is such a file."""
    Path(file + ".begun").touch()
    while not Path(file).exists():
        time.sleep(0.01)
    return "WORD"


@tool
def word_soon_when(file: str) -> str:
    """The same in a web process."""
    return word_when(file)
'''


class Tools:
    """A folder with one app outside of this project, and the server that serves it."""

    def __init__(self, folder: Path) -> None:
        self.apps = folder / "tools"
        self.app = self.apps / "mytools"
        self.app.mkdir(parents=True)
        (self.app / "__init__.py").touch()
        self.code = self.app / "mcp.py"
        self.write("first")
        self.settings = {"MCP_APPS": "mytools", "MCP_APPS_PATH": str(self.apps)}
        self.installation = Installation(folder, "--reload", **self.settings)

    def write(self, word: str) -> None:
        """Write code that says a word no other test uses; ``word`` is kept."""
        self.word = word
        self.code.write_text(TOOLS.replace("WORD", word))

    def serves(self, client: Mcp, word: str) -> bool:
        return client.tool("word")["result"]["content"][0]["text"] == word

    def edit(self, client: Mcp, word: str) -> None:
        """Change the code, and wait until every process serves it."""
        said, before = (
            "the edited code is served",
            self.installation.output.count("the edited code is served"),
        )
        self.write(word)
        wait_until(lambda: self.serves(client, word), SERVED_SECONDS, f"{word} is served")
        wait_until(lambda: self.installation.output.count(said) > before, SERVED_SECONDS, said)
        self.installation.remember()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Return one server for all tests: each finds it without a fault, and leaves it so."""
    tools = Tools(tmp_path_factory.mktemp("dev"))
    tools.installation.start_healthy()
    yield tools
    assert tools.installation.stop() == 0
    assert tools.installation.survivors() == []
    tools.installation.close()


@pytest.fixture
def client(tools: Tools) -> Iterator[Mcp]:
    with closing(Mcp.at(tools.installation.port)) as client:
        client.initialize()
        yield client


class NewConnections:
    """A loop that opens connections until stopped; failures are in ``refused``."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self.refused: list[str] = []
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            try:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    self.answered += 1
            except (OSError, http.client.HTTPException) as error:
                self.refused.append(repr(error))
            finally:
                connection.close()
            self._stop.wait(0.01)


def test_edit_is_served_to_open_sessions_without_refused_connections(tools: Tools, client: Mcp) -> None:
    stream = client.get_stream()
    before = {name: tools.installation.pid(name) for name in ("web-1", "worker", "redis")}
    session = client.session
    with NewConnections(tools.installation.port) as connections:
        tools.edit(client, "second")
    assert connections.answered > 0
    assert connections.refused == []
    assert client.session == session
    # The stream ended with its process, and resumes at its position.
    assert "notifications/tools/list_changed" in methods(stream, client)
    after = {name: tools.installation.pid(name) for name in before}
    assert after["redis"] == before["redis"]
    assert after["web-1"] != before["web-1"]
    assert after["worker"] != before["worker"]


def methods(stream: EventStream, client: Mcp) -> set[str]:
    """Return methods received on a standalone stream, reopened when it ends."""
    found: set[str] = set()
    while "notifications/tools/list_changed" not in found:
        message = stream.message()
        if message is None:
            stream.close()
            stream = client.get_stream(stream.last_event_id)
        else:
            found.add(message["method"])
    stream.close()
    return found


@pytest.mark.parametrize("name", ["word_when", "word_soon_when"], ids=["background", "web process"])
def test_running_call_finishes_old_code_and_new_call_runs_edited_code(
    tools: Tools, client: Mcp, tmp_path: Path, name: str
) -> None:
    earlier, later = tools.word, f"after {name}"
    slow, quick = tmp_path / "slow", tmp_path / "quick"
    quick.touch()
    call = client.open_call("tools/call", {"name": name, "arguments": {"file": str(slow)}})
    wait_until(Path(f"{slow}.begun").exists, 30.0, "the call runs")
    tools.edit(client, later)
    assert later in json.dumps(client.tool(name, file=str(quick)))
    slow.touch()
    assert f'"{earlier}"' in answer_of(call, client)


def test_unresumable_modern_call_is_answered_through_edits(tools: Tools, client: Mcp, tmp_path: Path) -> None:
    before, slow = tools.word, tmp_path / "slow"
    asked = {"name": "word_when", "arguments": {"file": str(slow)}}
    with ThreadPoolExecutor(1) as pool:
        modern = Modern(tools.installation.port, patience=120.0)
        call = pool.submit(modern.request, "tools/call", asked)
        wait_until(Path(f"{slow}.begun").exists, 30.0, "the call runs")
        # The second edit takes longer than a stopping process would wait.
        tools.edit(client, "between")
        tools.edit(client, "at last")
        assert not call.done()
        slow.touch()
        assert f'"{before}"' in json.dumps(call.result(60.0))


def answer_of(stream: EventStream, client: Mcp) -> str:
    """Return the answer of a call, reopening its stream when it ends early."""
    while True:
        message = stream.message()
        if message is not None and "result" not in message:
            continue
        stream.close()
        if message is not None:
            return json.dumps(message["result"])
        stream = client.get_stream(stream.last_event_id)


@pytest.mark.parametrize(
    ("mistake", "line", "says"),
    [
        ("def broken(:\n", 1, "SyntaxError"),
        ("\nimport no_such_library\n", 2, "No module named 'no_such_library'"),
        (
            "from mcp_app import tool\n\n@tool\ndef untyped(number):\n    return number\n",
            3,
            "parameter 'number' needs a type hint",
        ),
    ],
    ids=["syntax", "import", "definition"],
)
def test_broken_edit_is_reported_while_previous_code_is_served(
    tools: Tools, client: Mcp, mistake: str, line: int, says: str
) -> None:
    tools.code.write_text(mistake)
    wait_until(lambda: says in tools.installation.output, SERVED_SECONDS, "the mistake is shown")
    assert f'File "{tools.code}", line {line}' in tools.installation.output
    assert tools.serves(client, tools.word)
    kept = json.loads((tools.installation.data / "run" / "code_fault.json").read_text())
    assert (kept["file"], kept["line"]) == (str(tools.code), line)
    checked = manage(tools.installation.data.parent, "check", **tools.settings)
    assert checked.returncode == 1
    assert f"{tools.code}:{line}: " in checked.stderr
    assert says in checked.stderr
    assert "Traceback" not in checked.stderr

    tools.edit(client, f"mended at {line}")
    assert not (tools.installation.data / "run" / "code_fault.json").exists()


def test_start_with_broken_code_waits_for_correction(tmp_path: Path) -> None:
    tools = Tools(tmp_path)
    tools.code.write_text("import no_such_library\n")
    try:
        tools.installation.start()
        wait_until(lambda: "starts once" in tools.installation.output, 180.0, "the mistake is shown")
        assert f"{tools.code}:1: ModuleNotFoundError" in tools.installation.output
        assert "Traceback" not in tools.installation.output
        tools.write("corrected")
        wait_until(lambda: "  Stop     Ctrl-C" in tools.installation.lines, START_SECONDS, "healthy")
        with closing(Mcp.at(tools.installation.port)) as client:
            client.initialize()
            assert tools.serves(client, "corrected")
        assert tools.installation.stop() == 0
    finally:
        tools.installation.close()
