import pytest

from vgg_kernels.emulator.ptx import EmulationError, address_of, classify, parse

TEXT = """.version 8.7
.target sm_90a
.visible .entry k(
	.param .u64 k_param_0
)
.reqntid 128
{
	.reg .b32 	%r<5>;
	mov.u32 	%r1, %tid.x; // a comment
	@!%p1 bra 	$L__BB0_2;
	add.s32 %r2, %r1, {imm};
$L__BB0_2:
	{
	.reg .pred complete;
	waitLoop:
	mbarrier.try_wait.parity.shared::cta.b64 complete, [%r1], %r2;
	@!complete bra.uni waitLoop;
	}
	ret;
$L__func_end0:
}
"""


def test_blocks_end_with_branches_and_begin_with_labels():
    program = parse(TEXT.replace("{imm}", "1"))
    assert (program.name, program.parameters, program.threads, program.registers) == ("k", 1, 128, {"r": 5})
    assert [[i.op for i in block] for block in program.blocks] == [
        ["mov.u32", "bra"], ["add.s32"], ["mbarrier.wait", "ret"], []
    ]  # fmt: skip
    assert program.labels == {"$L__BB0_2": 2}
    branch = program.blocks[0][1]
    assert (branch.predicate, branch.negated, branch.operands) == ("%p1", True, ("$L__BB0_2",))


def test_lines_are_those_of_the_text():
    lines = TEXT.replace("{imm}", "1").splitlines()
    for block in parse(TEXT.replace("{imm}", "1")).blocks:
        for instruction in block:
            if instruction.op != "mbarrier.wait":
                assert instruction.text in lines[instruction.line - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("sm_90a", "sm_100a"), "the PTX's target is sm_100a; accepted: sm_90a"),
        ("no ptx at all", "the PTX's target is missing"),
        (TEXT.replace("add.s32 %r2, %r1, {imm};", "add.s32 %r2, %r1"), "line 11: not a PTX statement"),
        (TEXT.replace(".reqntid 128", ""), "does not say how many threads"),
    ],
)
def test_what_is_not_understood_is_named(text, message):
    with pytest.raises(EmulationError, match=message):
        parse(text)


def test_operands():
    assert address_of("[%r4+16]") == ("%r4", 16)
    assert address_of("[ %rd1 ]") == ("%rd1", 0)
    with pytest.raises(EmulationError, match="not an address"):
        address_of("%r4")


def test_every_instruction_has_a_class():
    blocks = parse(TEXT.replace("{imm}", "1")).blocks
    assert [classify(i) for block in blocks for i in block] == ["move", "control", "integer", "mbarrier", "control"]
