"""Clients for tests, written by hand: they see every byte."""
