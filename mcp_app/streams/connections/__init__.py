"""Connections to Redis: clients, the shared connection, keys and scripts."""
