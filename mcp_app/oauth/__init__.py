"""The embedded authorization server: clients, consent, and the tokens that clients get."""
