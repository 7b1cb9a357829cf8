"""A catalogue app whose tools make the transport's behaviour visible; never installed outside tests."""
