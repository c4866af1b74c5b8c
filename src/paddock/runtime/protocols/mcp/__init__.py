"""Servers that speak the Model Context Protocol, beside us in a cage or elsewhere over HTTP."""
