"""Uses every hook of the kernel."""
