"""Logs and redaction: what is told to operators, and what must never be."""
