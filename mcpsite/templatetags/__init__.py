"""Template tags of the admin's frame."""
