"""One demo tool file that is used on every revision over every transport."""
