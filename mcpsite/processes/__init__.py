"""The processes of an installation: programs, their supervision, and their replacement after edits."""
