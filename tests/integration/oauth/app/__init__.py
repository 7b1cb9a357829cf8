"""Tools that tell what their caller may do."""
