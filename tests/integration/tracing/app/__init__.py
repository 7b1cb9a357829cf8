"""A catalogue app whose tools return their trace context; never installed outside tests."""
