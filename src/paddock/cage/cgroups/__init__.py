"""What a cage may use of memory, processes and CPU, and who sees to it: the kernel's groups, or the warden itself."""
