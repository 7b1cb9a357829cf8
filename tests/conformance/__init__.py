"""The official conformance suite against a fixture server: two web processes, embedded Redis, no baseline."""
