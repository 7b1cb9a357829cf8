"""Pytest plugins, and programs that select, sort and repeat tests."""
