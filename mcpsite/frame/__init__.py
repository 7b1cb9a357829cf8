"""The frame of the admin's pages: places that it links, and bundles of its scripts and style sheets."""
