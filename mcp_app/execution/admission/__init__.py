"""Admission of calls: the gate that decides whether a tool call may start.

The checks run in a fixed order: the tool exists for its caller, the arguments match its schema, then
limits, quota and approval. A refusal is an error with a code (``protocol.refusals``).
"""
