"""An app whose tools write down what they do, for tests that break things around them."""
