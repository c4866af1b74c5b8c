"""Functions of the application around the host, called behind the same door as every plugin."""
