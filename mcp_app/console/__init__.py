"""The live console: every session in real time from any process, and actions for operators."""
