"""The promises of the project, and which tests prove them."""
