"""What the client's model has answered to ``ctx.sample``."""

from __future__ import annotations

from typing import Any


class CreateMessageResult(dict[str, Any]):
    """The result as the client sent it, of which the usual parts have names; ``text`` is what is said."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The text; of several blocks each on a line of its own, empty if there is none."""
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """All content as a list: texts, images, uses of tools."""
        content = self["content"]
        return list(content) if isinstance(content, list) else [content]

    @property
    def model(self) -> str:
        """The model's name, which is untrusted text."""
        return str(self.get("model", ""))

    @property
    def stop_reason(self) -> str:
        """Why it stopped, such as ``endTurn``, ``maxTokens`` or ``toolUse``; empty if it is not said."""
        return str(self.get("stopReason") or "")
