"""Legacy sessions: their life, their standalone stream, questions to their client, and the message log."""
