"""Adapter and transports for Model Context Protocol servers, local in a cage or remote over HTTP."""
