"""Parse the PTX that Triton emits for sm_90 into blocks of instructions."""

import re
from dataclasses import dataclass


class EmulationError(Exception):
    """What the emulator cannot run, or what a card would not run: one line that says what and where."""


@dataclass(frozen=True)
class Instruction:
    """One statement.

    Attributes:
        line: its line in the PTX, from 1.
        predicate: the register that guards it, None without one.
        negated: whether it runs where the predicate is false.
        op: the opcode with its suffixes; "mbarrier.wait" for Triton's loop around ``mbarrier.try_wait``.
        operands: split at the commas outside of braces and brackets.
        text: the statement as written.
    """

    line: int
    predicate: str | None
    negated: bool
    op: str
    operands: tuple[str, ...]
    text: str

    @property
    def type(self) -> str:
        """The last suffix of the opcode, for most the type of its operands."""
        return self.op.rpartition(".")[2]

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class Program:
    """One kernel.

    Attributes:
        name: of the entry.
        parameters: how many it takes.
        threads: of one CTA.
        registers: how many of each kind ("r" 32 bits, "rs" 16, "rd" 64, "p" predicates).
        blocks: straight runs of instructions; a branch or a return ends one.
        labels: the block that each label begins.
    """

    name: str
    parameters: int
    threads: int
    registers: dict[str, int]
    blocks: tuple[tuple[Instruction, ...], ...]
    labels: dict[str, int]


_WAIT = re.compile(
    r"\{\s*\.reg \.pred complete;\s*waitLoop:\s*(@!?%p\d+ )?mbarrier\.try_wait\.parity\.shared::cta\.b64 complete, "
    r"\[(%r\d+)\], (%r\d+);\s*@!complete bra\.uni waitLoop;\s*\}"
)
_STATEMENT = re.compile(r"(?:@(!?)(%p\d+)\s+)?([\w.:]+)\s*(.*);$")


def parse(text: str) -> Program:
    """The program of the one entry of ``text``.

    Raises:
        EmulationError: for another architecture than sm_90a, and for a statement that is not understood.
    """
    target = re.search(r"^\.target (\w+)", text, re.MULTILINE)
    if not target or target[1] != "sm_90a":
        raise EmulationError(f"the PTX's target is {target[1] if target else 'missing'}; accepted: sm_90a")
    entry = re.search(r"\.entry (\w+)\(", text)
    if not entry:
        raise EmulationError("the PTX has no entry")
    text = _WAIT.sub(lambda m: f"mbarrier.wait [{m[2]}], {m[3]};" + "\n" * m[0].count("\n"), text)
    head, body = text[: (start := text.index("{", entry.start()))], text[start:]
    threads = re.search(r"\.reqntid (\d+)", head)
    if not threads:
        raise EmulationError(f"{entry[1]} does not say how many threads a CTA has (.reqntid)")
    blocks: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for line, raw in enumerate(body.splitlines(), start=1 + head.count("\n")):
        statement = raw.partition("//")[0].strip()
        if statement.startswith("$L__func_end"):
            break
        if not statement or statement[0] in ".{}()" or statement.startswith(("$L__tmp", "$L__func")):
            continue
        if statement.endswith(":"):
            labels[statement[:-1]] = len(blocks)
            blocks.append([])
            continue
        found = _STATEMENT.match(statement)
        if not found:
            raise EmulationError(f"line {line}: not a PTX statement: {statement}")
        negated, predicate, op, operands = found.groups()
        blocks[-1].append(Instruction(line, predicate, negated == "!", op, _operands(operands), statement))
        if op.startswith("bra") or op == "ret":
            blocks.append([])
    registers = {kind: int(count) for kind, count in re.findall(r"\.reg \.\w+\s+%(\w+)<(\d+)>;", body)}
    parameters = len(re.findall(rf"{entry[1]}_param_\d+", head))
    return Program(entry[1], parameters, int(threads[1]), registers, tuple(map(tuple, blocks)), labels)


def _operands(text: str) -> tuple[str, ...]:
    parts = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text)
    return tuple(part.strip() for part in parts if part.strip())


def registers_of(operand: str) -> list[str]:
    """The names in a vector operand, ``{%r1, %r2}``, or the one name of a scalar."""
    return [name.strip() for name in operand.strip("{} ").split(",")]


def address_of(operand: str) -> tuple[str, int]:
    """Register and offset of ``[%r1 + 16]``."""
    found = re.fullmatch(r"\[\s*([%\w]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
    if not found:
        raise EmulationError(f"not an address: {operand}")
    return found[1], int(found[2] or 0)


INSTRUCTION_CLASSES = (
    ("wgmma.mma", "wgmma"), ("wgmma", "wgmma_sync"), ("cp.async.bulk.tensor", "bulk_copy"), ("cp.async", "bulk_sync"),
    ("mbarrier", "mbarrier"), ("bar.", "barrier"), ("ld.shared", "shared"), ("st.shared", "shared"),
    ("ldmatrix", "matrix"), ("stmatrix", "matrix"), ("ld.global", "global"), ("st.global", "global"),
    ("atom", "global"),
    ("bra", "control"), ("ret", "control"), ("elect", "warp"), ("shfl", "warp"), ("fence", "fence"), ("mov", "move"),
    ("griddepcontrol", "control"),
)  # fmt: skip


def classify(instruction: Instruction) -> str:
    """The class under which an instruction is counted."""
    for prefix, name in INSTRUCTION_CLASSES:
        if instruction.op.startswith(prefix):
            return name
    return "float" if re.search(r"f32$|f16", instruction.op) else "integer"
