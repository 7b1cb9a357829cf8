"""Requirements of the specification, and the tests that prove them."""
