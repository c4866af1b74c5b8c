"""The inner walls: which system calls, files and limits a plugin is held to, and the program that raises them."""
