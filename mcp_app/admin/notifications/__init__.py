"""The page on which people choose how they hear of what waits for them."""
