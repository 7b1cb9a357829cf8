"""Questions of running calls to their clients, and the state that is stored until the answers arrive."""
