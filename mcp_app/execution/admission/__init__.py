"""Admission of calls: the gate that decides whether a call of a tool may start.

The order is fixed: the tool exists for its caller, the arguments fit its schema, limits, quota, approval. A
refusal is an error with a code (``protocol.refusals``).
"""
