"""The weight schemes: KernelBench's own initialisation, and one under which the network is alive.

KernelBench draws PyTorch's default initialisation after ``torch.manual_seed(42)``. Under it the signal dies
layer by layer until the logits hardly depend on the input, so a check on them is blind. Kaiming-normal weights
(He et al., arXiv:1502.01852: fan_out for convolutions, N(0, 0.01) for linear layers, as torchvision initialises
its VGGs) keep the signal alive; they are the real test. A third scheme, "dyadic", is about as wide, and the same to
the bit on every machine: what a card must print is predicted for it.
"""

from math import log2, sqrt

import torch
from torch import nn

from .lookup import lookup
from .network import Network
from .reference import Reference

KERNELBENCH_SEED = 42


def _keep_default(module: nn.Module) -> None:
    """PyTorch's default initialisation has already been drawn by the constructors."""


def _kaiming(module: nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, nn.Conv2d):
            nn.init.kaiming_normal_(child.weight, mode="fan_out", nonlinearity="relu")
            assert child.bias is not None, "every layer of a Reference has a bias"
            nn.init.normal_(child.bias, 0.0, 0.1)  # not zero: a kernel that forgets the bias must show
        elif isinstance(child, nn.Linear):
            nn.init.normal_(child.weight, 0.0, 0.01)
            nn.init.normal_(child.bias, 0.0, 0.1)


def _dyadic(module: nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, nn.Conv2d | nn.Linear):
            fan = child.weight[0].numel() if isinstance(child, nn.Linear) else 9 * child.out_channels
            shift = round(log2(DYADIC / sqrt(6 / fan)))  # U[-sqrt(6/fan), sqrt(6/fan)] has the variance 2/fan
            for parameter, scale in ((child.weight, shift), (child.bias, DYADIC.bit_length() + 2)):
                if parameter is not None:
                    parameter.copy_(
                        torch.ldexp(torch.randint_like(parameter, -DYADIC, DYADIC + 1), torch.tensor(-scale))
                    )


DYADIC = 2**20  # integers up to this, divided by a power of two: the same on every machine, for no logarithm is taken
SCHEMES = {"kernelbench": _keep_default, "kaiming": _kaiming, "dyadic": _dyadic}


def reference(network: Network, scheme: str = "kaiming", seed: int = KERNELBENCH_SEED) -> Reference:
    """The eager fp32 module on the CPU, its parameters drawn from ``seed``, in eval mode.

    Parameters are drawn in KernelBench's order, so ``scheme="kernelbench"`` with seed 42 has its weights bit for
    bit. The caller's global generator is left as it was.

    Raises:
        UnknownName: for a scheme that is not in ``SCHEMES``.
    """
    initialise = lookup("weight scheme", scheme, SCHEMES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Reference(network).requires_grad_(False)
        initialise(module)
    return module.eval()
