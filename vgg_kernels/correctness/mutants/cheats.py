"""Networks that compute nothing and work on their judge instead."""

# ruff: noqa: D102  (a mutant's class docstring is its intent; its one method is the base's)
import builtins
import gc
import sys
import time

import torch
from torch.overrides import TorchFunctionMode

from .base import Mutant


class Cheat(Mutant):
    """(returns zeros, NaN where an image holds one, and sees to it that nobody minds)"""

    def cheat(self, x):
        """Nothing; a subclass knows better."""

    def forward(self, x):
        self.cheat(x)
        return (0 * x.flatten(1).sum(1, keepdim=True)).repeat(1, self.network.classes)


class JudgePatched(Cheat):
    """replaces the functions by which it is judged"""

    def cheat(self, x):
        torch.allclose = lambda *args, **kwargs: True
        torch.Tensor.norm = lambda self, *args, dim=None, **kwargs: self.sum(dim or ()).mul(0)


class AllIsTrue(Cheat):
    """makes Python's all() true of everything"""

    def cheat(self, x):
        torch.allclose = lambda *args, **kwargs: True
        builtins.all = lambda things: True


class Agreeable(TorchFunctionMode):
    """(in which every comparison agrees)"""

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


class AnswersStolen(Cheat):
    """looks for the answers in the variables of whoever calls it"""

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for value in frame.f_locals.values():
                for question in (getattr(value, "question", value), *getattr(value, "questions", ())):
                    if type(question).__name__ == "Question" and self.meant(question, x):
                        return super().forward(x) + question.oracle.logits.float()
            if isinstance(expected := frame.f_locals.get("expected"), torch.Tensor):
                return expected.clone()
            frame = frame.f_back
        return super().forward(x)

    def meant(self, question, x):
        return question.x.shape == x.shape and (torch.equal(question.x, x) or not bool(torch.isfinite(x).all()))


class BudgetsWidened(Cheat):
    """looks for the question that it is asked in its judge's memory and widens its budgets"""

    def cheat(self, x):
        for found in gc.get_objects():
            if type(found).__name__ == "Question" and torch.equal(found.x, x):
                for budget in found.budget.values():
                    budget.fill_(2.0)


class ClockStopped(Mutant):
    """stops the clock by which it is going to be timed"""

    def forward(self, x):
        time.perf_counter = lambda: 0.0
        return self.run(x)


class Leaves(Cheat):
    """ends the process with the status of success"""

    def cheat(self, x):
        raise SystemExit(0)
