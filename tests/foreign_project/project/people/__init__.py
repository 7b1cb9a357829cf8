"""Users log in with their e-mail address; there is no other name."""
