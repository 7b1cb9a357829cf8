"""The protocol core: pure functions and dataclasses without Django, Redis, an event loop or a clock."""
