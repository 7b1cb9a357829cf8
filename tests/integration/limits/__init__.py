"""Tests of limits on a real Redis and database."""
