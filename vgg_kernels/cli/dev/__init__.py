"""Commands for maintainers, ``python -m vgg_kernels dev COMMAND``: what makes the stored tables and pages anew."""
