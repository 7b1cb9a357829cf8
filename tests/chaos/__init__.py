"""Tests that break real processes on purpose: promises must hold whichever process dies."""
