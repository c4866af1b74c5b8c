"""What works on this machine, what does not, and the line to type; behind `paddock doctor`."""
