"""Persistent clients on raw sockets: each follows one call through every cut to its single answer."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.cluster import Cluster
from tests.clients.raw_http import Answer, EventStream, Mcp, NotHttp

PAUSE_SECONDS = 0.1
CUT = (OSError, NotHttp, TimeoutError)
CAPABILITIES = {"elicitation": {"form": {}}, "sampling": {}}


def open_session(cluster: Cluster, process: int = 0, version: str = "2025-11-25") -> Mcp:
    """Open a session shared by callers; retry while the cluster is in trouble."""
    with closing(cluster.mcp(process)) as client:
        client.initialize(version, CAPABILITIES)
    return client


@dataclass
class Caller:
    """One call. ``ports`` are tried at random; ``cuts`` is the chance of a cut after an event."""

    cluster: Cluster
    session: Mcp
    nonce: str
    tool: str
    arguments: dict[str, Any]
    patience: float = 60.0
    cuts: float = 0.0
    ports: Sequence[int] = ()
    on_question: Callable[[Mcp, dict[str, Any]], None] | None = None
    last_id: str | None = None
    answered: bool = False
    refusals: int = 0
    retry_refused: bool = False
    rng: random.Random = field(default_factory=random.Random)
    thread: threading.Thread | None = None

    def start(self) -> Caller:
        self.rng = random.Random(self.cluster.rng.random())
        self.thread = threading.Thread(target=self.run, name=self.nonce, daemon=True)
        self.thread.start()
        return self

    def join(self) -> Caller:
        assert self.thread is not None
        self.thread.join(self.patience + 20)
        assert not self.thread.is_alive(), f"{self.nonce} hangs"
        return self

    def run(self) -> None:
        """Follow the call until it is answered, finally refused, or out of patience."""
        deadline = time.monotonic() + self.patience
        while not self.answered and time.monotonic() < deadline:
            try:
                self._attempt(deadline)
            except CUT as error:
                self._note("cut", text=f"{type(error).__name__}: {error}")
            if self.refusals and not self.retry_refused:
                return
            if not self.answered:
                time.sleep(PAUSE_SECONDS)
        if self.answered:
            self._look_again()

    def cancel(self) -> None:
        """Send a cancel through any process; retry until it is accepted."""
        deadline = time.monotonic() + 20
        self._note("cancel")
        while time.monotonic() < deadline:
            try:
                with closing(self._client()) as client:
                    if client.notify("notifications/cancelled", {"requestId": self.nonce}).status == 202:
                        return
            except CUT:
                pass
            time.sleep(PAUSE_SECONDS)

    def _note(self, kind: str, **more: Any) -> None:
        self.cluster.history.note(self.nonce, kind, **more)

    def _client(self) -> Mcp:
        return self.session.via(self.rng.choice(list(self.ports or self.cluster.ports)))

    def _attempt(self, deadline: float) -> None:
        with closing(self._client()) as client:
            self._follow(client, deadline)

    def _follow(self, client: Mcp, deadline: float) -> None:
        found = client.try_get_stream(self.last_id) if self.last_id else self._post(client)
        if isinstance(found, Answer):
            self._whole(found)
            return
        if self.last_id is None:
            self._note("accepted")
        with found as stream:
            try:
                while not self.answered and self._take(client, stream, deadline):
                    if self.rng.random() < self.cuts:
                        stream.cut()
                        self._note("cut", text="by choice")
                        return
                if not self.answered:
                    self._note("closed")
            except CUT:
                stream.salvage()
                while stream.waiting:
                    self._take(client, stream, deadline)
                raise

    def _post(self, client: Mcp) -> EventStream | Answer:
        self._note("posted")
        params = {
            "name": self.tool,
            "arguments": {"nonce": self.nonce, **self.arguments},
            "_meta": {"progressToken": self.nonce},
        }
        message = {"jsonrpc": "2.0", "id": self.nonce, "method": "tools/call", "params": params}
        return client.client.open_stream("POST", client.path, client.headers(), json.dumps(message).encode())

    def _whole(self, answer: Answer) -> None:
        """Read a single body instead of a stream: a refusal or an immediate answer."""
        message = answer.json() if answer.body else {}
        if answer.status == 200 and "id" in message:
            self._terminal(message, "")
            return
        self.refusals += self.last_id is None
        self._note("refused", text=f"{answer.status} {answer.body[:200]!r}")

    def _take(self, client: Mcp, stream: EventStream, deadline: float) -> bool:
        """Read one event; return False at the end of the connection."""
        event = stream.next(min(20.0, max(0.1, deadline - time.monotonic())))
        if event is None:
            return False
        if event.id:
            self.last_id = str(event.id)
        if event.data:
            self._message(client, json.loads(event.data), str(event.id))
        return True

    def _message(self, client: Mcp, message: dict[str, Any], event_id: str) -> None:
        method = message.get("method")
        if method == "notifications/message":
            if (
                message["params"]["logger"] == "mcp.stream"
            ):  # A gap notice of the server is not a message of the tool.
                return
            about, run, number = message["params"]["data"].split()[:3]
            self._note("message", about=about, run=run, number=float(number), event_id=event_id)
        elif method == "notifications/progress":
            params = message["params"]
            about, number = params["progressToken"], float(params["progress"])
            self._note("progress", about=about, number=number, event_id=event_id)
        elif method and "id" in message and self.on_question:
            self.on_question(client, message)
        elif "result" in message or "error" in message:
            self._terminal(message, event_id)

    def _terminal(self, message: dict[str, Any], event_id: str) -> None:
        about = str(message.get("id", self.nonce))
        self.answered = True
        if "error" in message:
            self._note("error", about=about, event_id=event_id, text=json.dumps(message["error"]))
            return
        text = message["result"]["content"][0]["text"]
        if message["result"].get("isError"):
            self._note("error", about=about, event_id=event_id, text=text)
            return
        words = text.split()
        if len(words) == 3:  # A counting tool reports its nonce, its run and its step.
            self._note("answer", about=words[0], run=words[1], number=float(words[2]), event_id=event_id)
        else:
            self._note("answer", about=about, event_id=event_id, text=text)

    def _look_again(self) -> None:
        """Record messages that follow the answer, so that the checker can object."""
        if self.last_id is None:
            return
        try:
            found = self._client().try_get_stream(self.last_id)
            if isinstance(found, EventStream):
                with found as stream:
                    while (event := stream.next(5)) is not None:
                        if event.data:
                            self._message(self.session, json.loads(event.data), str(event.id))
        except CUT:
            return


def call(cluster: Cluster, session: Mcp, nonce: str, tool: str = "work", **more: Any) -> Caller:
    """Start one call in a thread; names of Caller's members go there, the rest are arguments of the tool."""
    own = {name: more.pop(name) for name in list(more) if name in Caller.__dataclass_fields__}
    return Caller(cluster, session, nonce, tool, more, **own).start()
