"""Tests of the source code itself."""
