"""Tests of the company login; skipped where its library is not installed."""
