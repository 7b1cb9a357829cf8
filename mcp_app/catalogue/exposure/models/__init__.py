"""Tools that list and get the rows of a model."""
