"""Results above their tool's bound: cut for the model, and stored as pages for the caller."""
