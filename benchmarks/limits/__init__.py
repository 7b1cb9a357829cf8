"""Limits of several processes on one Redis, compared with an exact count."""
