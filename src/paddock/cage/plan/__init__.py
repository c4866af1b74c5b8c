"""What a cage will be: from granted capabilities to a `CageSpec`, and from that to bubblewrap's arguments. Pure."""
