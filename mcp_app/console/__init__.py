"""The live console: every session as it happens, from any process, and what operators do about it."""
