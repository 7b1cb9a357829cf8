"""The embedded authorization server: clients, consent and the tokens issued to clients."""
