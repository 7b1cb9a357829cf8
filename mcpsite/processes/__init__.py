"""The processes of an installation: programs, supervision, and replacement after edits."""
