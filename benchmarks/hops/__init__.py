"""Counts of our functions and files that each path enters, on real calls."""
