"""Replacement of processes after an edit, without refused requests.

New processes load the edited code while the current processes serve. If one of them fails to load it, all
new processes are discarded. Otherwise they take over stage by stage, first the worker and then the web
processes. Thus the worker already knows a new background tool when clients see it. Replaced processes
finish their requests and background calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from mcp_app.code_fault import CodeFault
from mcpsite.processes.edits import Edits
from mcpsite.processes.own_code import is_loaded_ahead
from mcpsite.processes.program import Child, Program
from mcpsite.supervisor import Supervisor


class Reloader:
    """The serving processes, candidates to replace them, and processes started ahead of the next edit."""

    def __init__(
        self,
        supervisor: Supervisor,
        edits: Edits,
        programs: Callable[[int], Sequence[Program]],
        started: dict[str, Child],
        fault_file: Path,
    ) -> None:
        """Create the reloader. ``programs`` returns a generation by number. ``started`` is generation 0."""
        self._supervisor = supervisor
        self._edits = edits
        self._programs = programs
        self._fault_file = fault_file
        self._generation = 0
        self._serving = started
        self._trial: list[Child] = []
        self._ahead: list[Child] = []
        self._edited_at = 0.0
        supervisor.attend(edits.descriptor, edits.reset)

    def turn(self) -> None:
        """Handle edits, and check the candidates. Call this after every event."""
        if changed := self._edits.take():
            self._try(changed)
        elif self._trial:
            self._judge()
        elif not self._ahead:
            self._ahead = self._begin()

    def _begin(self) -> list[Child]:
        self._generation += 1
        return [self._supervisor.try_out(program) for program in self._programs(self._generation)]

    def _try(self, changed: list[str]) -> None:
        self._supervisor.write_log("up", f"{_named(changed)} changed: loading the edited code")
        self._discard(self._trial)
        with suppress(OSError):  # If the disk is full, the server must continue.
            self._fault_file.unlink(missing_ok=True)
        self._edited_at = time.monotonic()
        if is_loaded_ahead(changed) or not all(child.alive for child in self._ahead):
            self._discard(self._ahead)
            self._ahead = []
        self._trial, self._ahead = self._ahead or self._begin(), []
        for child in self._trial:
            child.permit(1)

    def _judge(self) -> None:
        """Let the candidates take over once all are ready. Refuse the edit if a candidate has ended."""
        if not all(child.loaded or not child.alive for child in self._trial):
            return
        if dead := [child for child in self._trial if not child.alive]:
            self._refuse(dead)
            return
        stage = min(child.program.stage for child in self._trial)
        next_ones = [child for child in self._trial if child.program.stage == stage]
        for child in next_ones:
            child.permit(2)
        if all(child.ready for child in next_ones):
            self._take_over(next_ones)

    def _take_over(self, children: list[Child]) -> None:
        for child in children:
            self._supervisor.leave(self._serving[child.program.name])
            self._supervisor.keep(child)
            self._serving[child.program.name] = child
            self._trial.remove(child)
        if not self._trial:
            took = time.monotonic() - self._edited_at
            self._supervisor.write_log("up", f"the edited code is served, {took:.1f} s after the edit")

    def _refuse(self, dead: list[Child]) -> None:
        """Discard the candidates, and report the fault."""
        fault = CodeFault.read(self._fault_file)
        if fault is None:
            text = f"{dead[0].program.name} ended before it had loaded the code"
            fault = CodeFault("", 0, text, (*(dead[0].withheld or ()), text))
            with suppress(OSError):
                fault.write(self._fault_file)
        self._supervisor.write_log("up", "the edited code cannot be loaded, the previous code keeps running:")
        for line in fault.lines:
            self._supervisor.write_log("up", f"  {line}")
        self._discard(self._trial)
        self._trial = []

    def _discard(self, children: Iterable[Child]) -> None:
        for child in children:
            if child.ready:
                self._supervisor.leave(child)  # It may have started work, so let it finish.
            else:
                self._supervisor.discard(child)


def _named(changed: Sequence[str]) -> str:
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"{changed[0]}{more}"
