"""Stores on Redis, and their counterparts in the memory of a single process."""
