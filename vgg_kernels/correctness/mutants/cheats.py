"""Networks that compute nothing and attack the check instead."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
import builtins
import gc
import sys
import time

import torch
from torch.overrides import TorchFunctionMode

from .base import DISHONEST, WrongNetwork


class Cheat(WrongNetwork):
    """(returns zeros, NaN where an image holds one, and changes the check so that it accepts them)"""

    group = DISHONEST

    def cheat(self, x):
        """Nothing; a subclass overrides it."""

    def forward(self, x):
        self.cheat(x)
        return (0 * x.flatten(1).sum(1, keepdim=True)).repeat(1, self.network.classes)


class CheckPatched(Cheat):
    """replaces the functions that compare its output"""

    def cheat(self, x):
        torch.allclose = lambda *args, **kwargs: True
        torch.Tensor.norm = lambda self, *args, dim=None, **kwargs: self.sum(dim or ()).mul(0)


class AllIsTrue(Cheat):
    """makes Python's all() true of everything"""

    def cheat(self, x):
        torch.allclose = lambda *args, **kwargs: True
        builtins.all = lambda things: True


class Agreeable(TorchFunctionMode):
    """(a mode in which every comparison agrees)"""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        y = function(*args, **kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "allclose":
            return True
        return y * 0 if name in ("norm", "sub", "__sub__") else y


class ModeLeftOn(Cheat):
    """leaves a mode on in which every comparison agrees"""

    def cheat(self, x):
        Agreeable().__enter__()


class HookLeftOn(Cheat):
    """hooks every module when it is built, so that the reference returns zeros too"""

    def __init__(self, reference):
        super().__init__(reference)
        torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, y: torch.zeros_like(y))


class ReferenceStolen(Cheat):
    """takes the reference logits from the variables of its callers"""

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for value in frame.f_locals.values():
                for case in (getattr(value, "case", value), *getattr(value, "cases", ())):
                    if type(case).__name__ == "TestCase" and self.meant(case, x):
                        return super().forward(x) + case.oracle.logits.float()
            if isinstance(expected := frame.f_locals.get("expected"), torch.Tensor):
                return expected.clone()
            frame = frame.f_back
        return super().forward(x)

    def meant(self, case, x):
        return case.x.shape == x.shape and (torch.equal(case.x, x) or not bool(torch.isfinite(x).all()))


class BoundsWidened(Cheat):
    """finds its test case in memory and widens the error bounds"""

    def cheat(self, x):
        for found in gc.get_objects():
            if type(found).__name__ == "TestCase" and torch.equal(found.x, x):
                for bound in found.error_bound.values():
                    bound.fill_(2.0)


class ClockStopped(WrongNetwork):
    """stops the clock by which it is going to be timed"""

    group = DISHONEST

    def forward(self, x):
        time.perf_counter = lambda: 0.0
        return self.run(x)


class Leaves(Cheat):
    """ends the process with the status of success"""

    def cheat(self, x):
        raise SystemExit(0)
