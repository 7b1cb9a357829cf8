"""The live console under load: how fast users see messages, and the cost of logging them."""
