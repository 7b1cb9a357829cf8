"""Tests of the company login; skipped if its library is not installed."""
