"""Plans a cage: granted capabilities to a `CageSpec`, and a spec to bubblewrap's arguments. Pure."""
