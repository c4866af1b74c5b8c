"""Functions of the embedding application, called through the same gate as every plugin."""
