"""Admin pages of toolsets."""
