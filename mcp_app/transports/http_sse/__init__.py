"""HTTP+SSE, the transport of 2024-11-05: one event stream for the server, POSTs for the client."""
