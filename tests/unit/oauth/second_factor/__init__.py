"""The second factor, by the doors that people come through."""
