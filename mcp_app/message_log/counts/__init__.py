"""What the log writer counts besides messages by tool: by whom tools were called, and what went wrong."""
