"""Tests that start the real processes."""
