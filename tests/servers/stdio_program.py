"""A stdio server that misbehaves on request. It uses the standard library only, and handles calls in turn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

calls = 0


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str, params: dict[str, Any], number: str | int) -> Any:
    """Ask the client, and return its answer."""
    send({"id": number, "method": method, "params": params})
    while line := sys.stdin.readline():
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", message.get("error"))
    return None


def counter(arguments: dict[str, Any]) -> str:
    return str(calls)


def environment(arguments: dict[str, Any]) -> str:
    return json.dumps(dict(os.environ))


def pid(arguments: dict[str, Any]) -> str:
    return str(os.getpid())


def steps(arguments: dict[str, Any]) -> None:
    for step in range(3):
        params = {"progressToken": arguments["token"], "progress": step}
        send({"method": "notifications/progress", "params": params})


def form(arguments: dict[str, Any]) -> str:
    params = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    return json.dumps(ask("elicitation/create", params, arguments.get("number", f"q{calls}")))


def log(arguments: dict[str, Any]) -> None:
    send({"method": "notifications/message", "params": {"level": "info", "data": "logged"}})


def log_later(arguments: dict[str, Any]) -> None:
    """Log after the answer, as programs with background work do."""
    threading.Timer(0.3, log, [arguments]).start()


def changed(arguments: dict[str, Any]) -> None:
    send({"method": "notifications/tools/list_changed"})


def die(arguments: dict[str, Any]) -> None:
    os._exit(3)


def endless(arguments: dict[str, Any]) -> None:
    while True:
        sys.stdout.write("x" * 65_536)


def flood(arguments: dict[str, Any]) -> None:
    """Write to standard output or error without an end."""
    file, text = getattr(sys, arguments["file"]), arguments["text"] * arguments["repeat"]
    while True:
        file.write(text)
        file.flush()


def noise(arguments: dict[str, Any]) -> None:
    sys.stdout.write("This is no JSON.\n[1]\n7\n")


def stderr(arguments: dict[str, Any]) -> None:
    token = os.environ.get("API_TOKEN", "")
    for number in range(arguments.get("lines", 1)):
        sys.stderr.write(f"{number} {'e' * 1000} {token}\n")
    sys.stderr.write(f"last {token} \u202e\n")
    sys.stderr.flush()


def ignore_end(arguments: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send({"id": arguments["id"], "result": {"content": []}})
    while True:
        time.sleep(60)


def child(arguments: dict[str, Any]) -> str:
    started = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return str(started.pid)


def daemon(arguments: dict[str, Any]) -> str:
    """Fork twice into another session, as daemons do, and return the id of the grandchild."""
    reading, writing = os.pipe()
    if (first := os.fork()) == 0:
        os.setsid()
        if (second := os.fork()) == 0:
            for number in (0, 1, 2):
                os.close(number)
            time.sleep(1000)
        os.write(writing, str(second).encode())
        os._exit(0)
    os.waitpid(first, 0)
    return os.read(reading, 20).decode()


def memory(arguments: dict[str, Any]) -> str:
    return str(len(b"x" * (1024 * 1024 * arguments["mb"])))


def forged(arguments: dict[str, Any]) -> None:
    send({"id": "forged", "result": {"content": [{"type": "text", "text": "not mine"}]}})


def sleep(arguments: dict[str, Any]) -> None:
    time.sleep(arguments["seconds"])


def secret(arguments: dict[str, Any]) -> str:
    return os.environ.get("API_TOKEN", "")


FUNCTIONS: list[Callable[[dict[str, Any]], str | None]] = [
    counter, environment, pid, steps, form, log, log_later, changed, die, endless, flood, noise, stderr,
    ignore_end, child, daemon, memory, forged, sleep, secret,
]  # fmt: skip
TOOLS = {function.__name__: function for function in FUNCTIONS}


def call(message: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call. The functions know its id and its progress token."""
    global calls
    calls += 1
    params = message["params"]
    token = params.get("_meta", {}).get("progressToken")
    text = TOOLS[params["name"]]({**params.get("arguments", {}), "id": message["id"], "token": token})
    return {"content": [{"type": "text", "text": text or "done"}]}


def answer(message: dict[str, Any], mode: str) -> dict[str, Any] | None:
    """Return the result of a request, or None for an unknown method."""
    match message["method"]:
        case "server/discover" if mode == "modern":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "program", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "tools/call":
            return call(message)
    return None


def main(mode: str) -> None:
    if mode == "broken":
        sys.stderr.write("The configuration is missing.\n")
        sys.exit(4)
    is_doomed = False
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "server/discover" and mode in ("fragile", "late", "mute"):
            if mode == "fragile":
                sys.exit(5)
            is_doomed = mode == "late"
            continue
        # As a fragile program that reads its first request so late that the next one has arrived.
        if is_doomed and message.get("method") == "initialize":
            sys.exit(5)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message, mode)
        if result is None:
            send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
        else:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
