"""Real processes, broken on purpose: what is promised must hold whatever dies."""
