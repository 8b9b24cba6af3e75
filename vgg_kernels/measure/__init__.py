"""How long does it take? Devices, timers, variants and the run that measures them."""
