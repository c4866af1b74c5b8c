"""What commands print and ask at the terminal."""
