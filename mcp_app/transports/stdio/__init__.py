"""stdio: one client on this process's standard input and output."""
