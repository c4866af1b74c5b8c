"""Keeping plugin processes alive: their states, their restarts, and the calls that reach them."""
