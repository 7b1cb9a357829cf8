"""Calls with an idempotency key."""
