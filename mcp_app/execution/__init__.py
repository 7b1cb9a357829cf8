"""Tool calls: admission, execution, storage, workers, and decisions by operators."""
