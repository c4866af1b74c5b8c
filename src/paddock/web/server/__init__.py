"""HTTP servers on the Unix socket and TCP, on uvicorn's protocol."""
