"""Reading the code blocks of the documentation, and running what they say."""
