"""Questions of running calls to their clients, and the state stored until the answers arrive."""
