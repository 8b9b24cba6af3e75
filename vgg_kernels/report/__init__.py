"""What it means: recorded or fresh rows, the figures and the workload page."""
