"""One demo tool file for every revision and transport."""
