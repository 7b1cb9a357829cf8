"""Measures this checkout beside another one, in turns: ``python -m benchmarks.compare ../before``.

Each round runs every benchmark in both checkouts; the order alternates, so that both meet the same load of
the machine. A row is the median of the rounds' ratios: above 1, this checkout is better. The exit status is 1
when a row is below ``--at-least``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
RUN_SECONDS = 900
HIGHER = ("per_second", "logged_per_second")
LOWER = ("kib_each", "ms_last", "last", "start_ms", "accepted_ms", "progress_ms", "stop_ms", "p95_ms")
Figures = dict[tuple[str, str], float]


def figures(output: str) -> Figures:
    """What one run of the benchmarks said of our server: (row, figure) -> its median."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in output.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        # "median" lines repeat what the rounds said.
        if said.get("server", "ours") != "ours" or "median_per_second" in said:
            continue
        row = said.get("work") or said.get("target") or "background call"
        for name in (*HIGHER, *LOWER):
            if isinstance(said.get(name), int | float):
                found[row, name].append(said[name])
    return {key: statistics.median(values) for key, values in found.items()}


def run(checkout: Path, options: list[str]) -> Figures:
    """Run the benchmarks of a checkout once; its targets do not matter here."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *options],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    found = figures(done.stdout)
    if not found:
        raise SystemExit(f"The benchmarks of {checkout} said nothing:\n{done.stderr[-4000:]}")
    return found


def ratio(name: str, ours: float, base: float) -> float:
    """How this checkout compares in one figure of one round; above 1 is better."""
    over, under = (ours, base) if name in HIGHER else (base, ours)
    return over / under if under else 1.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-least", type=float, default=0.95)
    wanted = parser.parse_args(arguments)
    options = ["--rounds", "2", "--background-rounds", "1", "--console-rounds", "1"]
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(wanted.rounds):
        turns = [HERE, wanted.base.resolve()]
        measured = {checkout: run(checkout, options) for checkout in turns[:: 1 if number % 2 else -1]}
        ours, base = (measured[checkout] for checkout in turns)
        for key in ours.keys() & base.keys():
            ratios[key].append(ratio(key[1], ours[key], base[key]))
        print(json.dumps({"round": number + 1, "rows": len(ours.keys() & base.keys())}), flush=True)
    low = 0
    for (row, name), values in sorted(ratios.items()):
        median = statistics.median(values)
        low += median < wanted.at_least
        mark = "LOW" if median < wanted.at_least else ""
        print(f"{row[:60]:<62}{name:<18}{median:>6.2f}  {min(values):.2f}-{max(values):.2f}  {mark}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
