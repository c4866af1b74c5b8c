"""The plain way to start a cage: bubblewrap builds it around a program that begins from nothing."""
