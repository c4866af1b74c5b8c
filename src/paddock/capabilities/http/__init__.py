"""Web services through the host: which may be reached, how they are asked, and what is given back."""
