"""The eager network as KernelBench and torchvision write it, and the float64 oracle.

Both are the same mathematics; only the oracle's rounding (2^-53) is small enough to measure the others by.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .network import Conv, Network


class Reference(nn.Module):
    """The eager module: ``features`` and ``classifier``, state_dict keys as in KernelBench and torchvision.

    Dropout has p = 0, as in KernelBench, so train and eval mode agree. Takes ``[N, 3, image, image]``, returns
    ``[N, classes]``, in the dtype of its parameters.
    """

    def __init__(self, network: Network):
        super().__init__()
        self.network = network
        features: list[nn.Module] = []
        for conv in network.convs:
            features += [nn.Conv2d(conv.c_in, conv.c_out, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
            if conv.pooled:
                features.append(nn.MaxPool2d(kernel_size=2, stride=2))
        classifier: list[nn.Module] = []
        for linear in network.linears:
            classifier.append(nn.Linear(linear.features_in, linear.features_out))
            if linear.relu:
                classifier += [nn.ReLU(inplace=True), nn.Dropout(p=0.0)]
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(*classifier)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, 3, image, image]`` to ``[N, classes]``."""
        return self.classifier(torch.flatten(self.features(x), 1))


def activations(
    module: nn.Module, network: Network, x: Tensor, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """Every layer's output, by layer name, computed by PyTorch's own operators in ``dtype``.

    A layer's output is what the next layer reads: behind its ReLU, and behind its pool where it has one
    (``[N, C, H, W]``; ``[N, features]`` for the classifier). One layer's weights are converted at a time, so the
    float64 oracle of VGG19 needs 0.8 GB at its largest layer and not 1.15 GB more than the module.

    Args:
        module: anything with the reference's state_dict keys; its parameters are read, not changed.
        network: the layer table of the module.
        x: ``[N, 3, image, image]`` on the module's device.
        dtype: the arithmetic; float64 for the oracle.
    """
    state = module.state_dict()
    outputs: dict[str, Tensor] = {}
    with torch.no_grad():
        y = x.to(dtype)
        for layer in network.layers:
            weight, bias = (state[f"{layer.key}.{part}"].to(dtype) for part in ("weight", "bias"))
            if isinstance(layer, Conv):
                y = F.relu(F.conv2d(y, weight, bias, padding=1))
                y = F.max_pool2d(y, 2) if layer.pooled else y
            else:
                y = F.linear(y.flatten(1), weight, bias)
                y = F.relu(y) if layer.relu else y
            outputs[layer.name] = y
    return outputs


def oracle(module: nn.Module, network: Network, x: Tensor) -> Tensor:
    """The logits in float64, ``[N, classes]``: what every tier is measured against."""
    return activations(module, network, x)[network.layers[-1].name]


def relative_error(got: Tensor, want: Tensor) -> float:
    """``||got - want|| / ||want||`` (Frobenius), in float64; infinite where ``got`` holds a non-finite value."""
    got, want = got.detach().double(), want.detach().double()
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - want).norm() / want.norm())
