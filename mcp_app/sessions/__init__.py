"""Legacy sessions: their life cycle, standalone stream, questions to their client, and quota."""
