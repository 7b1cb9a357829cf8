"""What the specification asks for and which tests prove it."""
