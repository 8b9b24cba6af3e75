"""The command line, one module a command; ``python -m vgg_kernels`` runs it."""
