"""How Redis is reached: clients, the shared connection, keys and scripts."""
