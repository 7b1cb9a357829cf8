"""Test bodies that both twins of the event streams, Redis and memory, must pass."""
