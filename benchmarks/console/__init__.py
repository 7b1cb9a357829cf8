"""The live console under load: how soon people see messages, and what writing them down costs."""
