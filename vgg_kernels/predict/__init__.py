"""What to expect with no GPU: facts of the compiled kernels, and the time model."""
