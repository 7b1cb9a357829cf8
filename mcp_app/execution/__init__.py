"""Calls of tools: admission, execution, storage, workers, and decisions by people."""
