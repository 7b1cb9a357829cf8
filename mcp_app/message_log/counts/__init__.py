"""Counts beside those of messages by tool: callers of tools, errors and refusals."""
