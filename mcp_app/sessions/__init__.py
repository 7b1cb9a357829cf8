"""Sessions and requests without one: their life, their streams, and questions to their client."""
