"""How we compute it: the Triton kernels, their layouts and tiles, and the network built from them."""
