"""Answers to calls that a limit refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from mcp_app.database import clock
from mcp_app.limits.notation import plural
from mcp_app.limits.rules import BUDGET, CONCURRENT, SECONDS, Bucket, Period
from mcp_app.protocol.errors import Headers, McpError, TooManyRequests
from mcp_app.protocol.refusals import MEMBER, Code, refused

# Clients wait that long by themselves. For a longer wait, the model reads the reason in a tool error.
MOST_WAITED: Final = 60.0
# Concurrent calls end at an unknown time.
CONCURRENT_SECONDS: Final = 1.0
COUNT_UNKNOWN: Final = "The budget {} cannot be counted now. Try again in a moment."


def refusal_of(bucket: Bucket, wait: float) -> McpError:
    """Return the error for a call that a limit refuses for ``wait`` seconds.

    Its data has the members of SEP-3304 (``retryAfterMs``) beside those that other servers use.
    """
    data: dict[str, Any] = {
        "limit": bucket.rule.name,
        "measure": bucket.measure,
        "scope": bucket.scope,
        "retryAfter": max(1, ceil(wait)),
        "retryAfterMs": max(1, ceil(wait * 1000)),
    }
    text = f"The limit {bucket.rule.name} is reached: {amount_of(bucket)}. "
    if wait > MOST_WAITED:
        until = clock.utcnow().astimezone(UTC) + timedelta(seconds=ceil(wait))
        text += f"Do not call the tool again before {until:%Y-%m-%d %H:%M:%S} UTC."
        return refused(Code.LIMIT_USED_UP, text, wait, **data)
    text += f"Try again in {data['retryAfter']} s."
    code = Code.LIMIT_REACHED if bucket.rule.tool_id is None else Code.RATE_LIMITED
    error = TooManyRequests(
        text,
        data={**data, MEMBER: code.value},
        retry_after=wait,
        headers=rate_limit_headers(bucket, wait),
    )
    error.refusal = code.value
    return error


def unknown_count(bucket: Bucket) -> McpError:
    """Return the error for a call whose budget cannot be counted. A budget never admits uncounted calls."""
    return refused(Code.UNAVAILABLE, COUNT_UNKNOWN.format(bucket.rule.name), 1, limit=bucket.rule.name)


def rate_limit_headers(bucket: Bucket, wait: float) -> Headers:
    """Return the header fields of the IETF draft "RateLimit header fields for HTTP".

    The names of rules are structured-field strings without escapes.
    """
    name, rule = bucket.rule.name.encode(), bucket.rule
    policy = b'"%s";q=%d' % (name, _quota(bucket))
    if bucket.measure == BUDGET:
        period = Period.at(rule.budget_period, clock.utcnow())
        policy += b";w=%d" % (period.end - period.start).total_seconds()
    elif bucket.measure != CONCURRENT:
        policy += b";w=%d" % SECONDS[rule.rate_period]
    return (
        (b"ratelimit-policy", policy),
        (b"ratelimit", b'"%s";r=0;t=%d' % (name, max(1, ceil(wait)))),
    )


def amount_of(bucket: Bucket) -> str:
    """Return the amount of a limit in words, such as "100 calls per hour"."""
    rule = bucket.rule
    if bucket.measure == CONCURRENT:
        return f"{rule.concurrent:,} concurrent {plural('call', rule.concurrent)}"
    if bucket.measure == BUDGET:
        unit = plural("call" if rule.budget_unit == "calls" else "cost unit", rule.budget)
        return f"{rule.budget:,} {unit} per {rule.budget_period}"
    return f"{rule.rate:,} {plural('call', rule.rate)} per {rule.rate_period}"


def until_end(bucket: Bucket, now: datetime) -> float:
    """Return the seconds until the period of a budget ends."""
    return (Period.at(bucket.rule.budget_period, now).end - now).total_seconds()


def _quota(bucket: Bucket) -> int:
    amounts = {CONCURRENT: bucket.rule.concurrent, BUDGET: bucket.rule.budget}
    return amounts.get(bucket.measure, bucket.rule.rate)
