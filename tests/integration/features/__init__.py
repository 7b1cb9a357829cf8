"""Every feature of the protocol against real web processes, for each supported revision."""
