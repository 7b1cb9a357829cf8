"""Rows of models as tools that list and get."""
