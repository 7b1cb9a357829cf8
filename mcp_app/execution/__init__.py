"""Calls of tools: admitted, run, stored, run by workers, and decided about by people."""
