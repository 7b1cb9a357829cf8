"""The answer of the client's model to ``ctx.sample``."""

from __future__ import annotations

from typing import Any


class CreateMessageResult(dict[str, Any]):
    """The result as the client sent it, with properties for its usual members."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The text blocks, one per line, or ""."""
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """All content blocks as a list: texts, images, tool uses."""
        content = self["content"]
        return list(content) if isinstance(content, list) else [content]

    @property
    def model(self) -> str:
        """The name of the model. Do not trust it."""
        return str(self.get("model", ""))

    @property
    def stop_reason(self) -> str:
        """The stop reason, such as ``endTurn``, ``maxTokens`` or ``toolUse``, or ""."""
        return str(self.get("stopReason") or "")
