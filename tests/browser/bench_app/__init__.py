"""Entries to try in the test bench."""
