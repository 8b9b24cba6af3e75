"""What does the compiled code do? The PTX of every launch executed on a CPU, with an H100's own arithmetic."""
