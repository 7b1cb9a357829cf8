"""The gate: decides whether a call of a tool may begin, whichever way it came.

The order is always the same: the tool exists for its caller, the arguments fit its schema, limits, quota,
approval. A refusal is an error with a code (``protocol.refusals``).
"""
