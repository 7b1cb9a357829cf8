"""An external identity provider: its keys, its tokens, and who its people are here."""
