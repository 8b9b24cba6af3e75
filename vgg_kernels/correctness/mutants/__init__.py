"""Wrong networks, each one line away from a right one."""
