"""The processes of one installation: what runs them, and what replaces them when code is edited."""
