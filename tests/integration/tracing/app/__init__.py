"""A catalogue app whose tools tell what they know of their trace; never installed outside tests."""
