"""An app whose tools record their events, for tests that cause failures around them."""
