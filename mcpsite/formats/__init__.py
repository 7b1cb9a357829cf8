"""How times and dates are written on the skin's own pages: as on all others."""
