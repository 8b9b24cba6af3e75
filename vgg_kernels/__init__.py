"""VGG19's forward pass on NVIDIA GPUs: Triton kernels, their floor, and the evidence for both.

The folders read in the order of the imports, each answering one question:
``workload`` (what is computed), ``floor`` (the least it costs), ``kernels`` (how we compute it),
``predict`` (how long it should take), ``correctness`` (is the output right), ``measure`` (how long it takes),
``records`` (what is on file), ``report`` (what it means).

Importing the package needs neither a GPU, nor triton, nor matplotlib.
"""

__version__ = "0.1.0"
