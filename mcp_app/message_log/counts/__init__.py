"""Counts of the message log by caller, by error and by refusal code."""
