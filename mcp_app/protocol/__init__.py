"""Protocol core: bytes and dataclasses in, decisions out; independent of Django, Redis, event loop, clock."""
