"""Rows, databases, files and schemas for tests."""
