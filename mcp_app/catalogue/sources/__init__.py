"""Where entries come from, and the one precedence of the administrator's values over those of the source."""
