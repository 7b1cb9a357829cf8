"""Servers for tests: ours, with its processes, and those that it talks to."""
