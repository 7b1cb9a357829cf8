"""The pure core: bytes and dataclasses in, decisions out; it knows no Django, Redis, event loop or clock."""
