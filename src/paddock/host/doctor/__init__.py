"""The checks of `paddock doctor`: what works on this machine, what does not, and the command that fixes it."""
