"""Home page, repairs and the guided tour."""
