"""The live console: all sessions and messages of the installation in real time, and actions for operators."""
