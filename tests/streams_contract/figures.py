"""The contract of every store of metrics."""

from __future__ import annotations

from mcp_app.streams import Streams

STATE = b'{"at": 1}'


def called(name: str, count: int = 1) -> tuple[str, str, str, int]:
    return "tool ", name, " ok", count


async def test_counts_of_processes_are_summed_and_last_states_kept(streams: Streams) -> None:
    await streams.metrics.add("a", 1, [called("echo"), ("left_out", "", "", 3)], b"old")
    await streams.metrics.add("b", 1, [called("echo", 2)], STATE)
    await streams.metrics.add("a", 2, [called("echo", 10)], b"new with blanks")
    totals = await streams.metrics.read()
    assert totals.counts == {"tool echo ok": 13, "left_out": 3}
    assert totals.states == {"a": b"new with blanks", "b": STATE}


async def test_repeated_report_is_counted_once(streams: Streams) -> None:
    for _ in range(3):
        await streams.metrics.add("a", 1, [called("echo")], STATE)
    assert (await streams.metrics.read()).counts == {"tool echo ok": 1}


async def test_names_above_200_are_counted_as_other(streams: Streams) -> None:
    await streams.metrics.add("a", 1, [called(f"tool-{number}") for number in range(150)], STATE)
    await streams.metrics.add("b", 1, [called(f"tool-{number}") for number in range(100, 260)], STATE)
    counts = (await streams.metrics.read()).counts
    assert len(counts) == 201
    assert counts["tool other ok"] == 60
    assert counts["tool tool-149 ok"] == 2


async def test_hostile_name_is_kept_unchanged(streams: Streams) -> None:
    odd = 'a b\n"} 1\nmcp_forged_total 9 Ä😀'
    await streams.metrics.add("a", 1, [called(odd)], STATE)
    assert (await streams.metrics.read()).counts == {f"tool {odd} ok": 1}
