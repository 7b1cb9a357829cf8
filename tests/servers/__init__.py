"""Servers for tests: ours with its processes, and the servers it connects to."""
