"""Cold start: bubblewrap builds the cage around a program that starts from scratch."""
