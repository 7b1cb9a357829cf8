"""The embedded authorization server: who may connect which client, and the tokens that clients get."""
