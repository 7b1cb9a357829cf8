"""Official clients against a live server with the demo catalogue: they list and call everything."""
