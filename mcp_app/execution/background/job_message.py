"""Job messages in Celery's format, made by replacing the id in a message that Celery has built.

Celery needs longer to build and send a job than Redis and the worker need to deliver it. Yet apart from the
id, the messages for the jobs of one queue are the same.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

# The headers that Celery itself sets. A header added by the project might differ for each job.
HEADERS = frozenset({
    *("lang", "task", "id", "shadow", "eta", "expires", "group", "group_index", "retries", "timelimit"),
    *("root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting"),
    *("stamped_headers", "stamps"),
})  # fmt: skip
PROPERTIES = frozenset({
    *("correlation_id", "reply_to", "argsrepr", "kwargsrepr", "delivery_mode", "delivery_info", "priority"),
    *("body_encoding", "delivery_tag"),
})  # fmt: skip
MEMBERS = frozenset({"body", "content-encoding", "content-type", "headers", "properties"})


@dataclass(frozen=True, slots=True)
class JobMessage:
    """A template of Redis messages for the jobs of a queue. ``key`` is the Redis list to push them to."""

    key: str
    _call: str
    _tag: str
    _body: str
    _before: str
    _after: str

    @classmethod
    def like(cls, key: str, message: dict[str, Any], call: str) -> JobMessage | None:
        """Build a template from Celery's job for ``call``. Return None if more than the id may vary."""
        headers, properties = message.get("headers", {}), message.get("properties", {})
        usual = (
            message.keys() <= MEMBERS
            and headers.keys() <= HEADERS
            and properties.keys() <= PROPERTIES
            and message.get("content-type") == "application/json"
            and properties.get("body_encoding") == "base64"
            and headers.get("id") == call
            and headers.get("eta", call) is headers.get("expires", call) is None
        )
        if not usual:
            return None
        body = b64decode(message["body"]).decode()
        text = json.dumps({**message, "body": ""})
        before, mark, after = text.partition('"body": "')
        if json.loads(body)[0] != [call] or not mark:
            return None
        return cls(key, call, properties["delivery_tag"], body, before + mark, after)

    def of(self, call: str) -> str:
        """Return the message for the job of ``call``."""
        body = b64encode(self._body.replace(self._call, call).encode()).decode()
        before, after = (
            part.replace(self._call, call).replace(self._tag, str(uuid4()))
            for part in (self._before, self._after)
        )
        return f"{before}{body}{after}"
