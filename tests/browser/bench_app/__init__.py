"""Entries for tests of the test bench."""
