"""The snapshot of the catalogue that this process serves, and the code that loads it."""
