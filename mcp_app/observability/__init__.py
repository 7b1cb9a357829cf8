"""Logs, metrics and redaction: what operators see, and what they must never see."""
