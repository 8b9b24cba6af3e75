"""What the page promises in words: semantics with their tests, how records are decided, sources, how to contribute."""

from ..evidence.ranking import STALE_AFTER
from ..evidence.statistics import CONFIDENCE, RESAMPLES, samples_needed
from ..evidence.trust import LEVELS
from ..workload.identity import KERNELBENCH
from .document import Rule, Semantic, Source

STATEMENT = (
    "The forward pass of VGG19: sixteen 3x3 convolutions with bias and ReLU, five 2x2 max-pools, three linear layers. "
    "It takes a batch of fp32 images, [N, 3, 224, 224], and returns fp32 logits, [N, 1000]. The public record is at "
    "N = 10 (KernelBench level 3, problem 12)."
)

MODEL_TESTS = "tests/kernels/test_semantics.py::"
SEMANTICS = (
    Semantic(
        property="inputs",
        statement="one contiguous fp32 tensor x, [N, 3, 224, 224]; another dtype, rank or size is a clear error",
        test=f"{MODEL_TESTS}test_another_input_is_a_clear_error",
    ),
    Semantic(
        property="outputs",
        statement="fp32 logits, [N, 1000], on the input's device",
        test=f"{MODEL_TESTS}test_outputs_are_fp32_logits_of_every_image",
    ),
    Semantic(
        property="axes",
        statement="N is any batch of 1 or more; each image's logits depend on that image alone",
        test=f"{MODEL_TESTS}test_each_image_depends_on_itself_alone",
    ),
    Semantic(
        property="determinism",
        statement="the same image gives the same bits, call after call, whatever its neighbours",
        test=f"{MODEL_TESTS}test_the_same_image_gives_the_same_bits_call_after_call",
    ),
    Semantic(
        property="no mutation",
        statement="neither the input nor a parameter is changed",
        test=f"{MODEL_TESTS}test_neither_input_nor_parameters_are_changed",
    ),
    Semantic(
        property="no aliasing",
        statement="the output shares no memory with the input, nor with the output of the call before",
        test=f"{MODEL_TESTS}test_an_output_survives_the_next_call",
    ),
    Semantic(
        property="non-finite values",
        statement="a NaN pixel reaches the logits of its own image and of no other",
        test=f"{MODEL_TESTS}test_a_nan_pixel_reaches_its_own_image_only",
    ),
    Semantic(
        property="identity",
        statement="the manifest's hash is recomputed and pinned",
        test="tests/workload/test_identity.py::test_the_pinned_identity_is_that_of_the_manifest",
    ),
)

IDENTITIES = (
    "Ours: recompute it with any RFC 8785 library from the manifest in this document.",
    f"The problem file's: `git show {KERNELBENCH.revision[:10]}:{KERNELBENCH.path} | sha256sum` in a clone of "
    "KernelBench. Earlier revisions of the file drew the input otherwise and have other hashes.",
    "The public index's: it is taken over a manifest of the index's own whose body is not public. We know how it "
    "begins and cannot recompute it, so nothing here relies on it.",
)

RULES = (
    Rule(
        name="Cohort",
        text="Records are ranked only against records of the same network, batch, device, precision tier, timer and "
        "cache state. The tier is that of the least precise operand: fp32 tensors whose convolutions may use TF32 are "
        "tf32, whatever they are called.",
    ),
    Rule(
        name="Order",
        text="By mean, as the public protocol has it. A rank is one more than the number of records whose whole "
        f"{100 * CONFIDENCE:.0f} % interval lies below; records whose intervals overlap are tied.",
    ),
    Rule(
        name="Interval",
        text=f"From raw samples by a block bootstrap of {RESAMPLES} resamples. For published rows, of which only mean, "
        "deviation and count are known, the normal interval, widened by their rounding. It covers repeating the "
        "calls, not repeating the run on another card.",
    ),
    Rule(
        name="Tails",
        text=f"p95 from {samples_needed(0.95)} samples, p99 from {samples_needed(0.99)}: below that the largest sample "
        f"does not bound them with {100 * CONFIDENCE:.0f} % confidence.",
    ),
    Rule(
        name="Quarantine",
        text="A time below the lowest floor that is known for its tier and device, a failed or missing gate verdict, "
        "or another workload keeps a record out of the ranking, with the reason. PyTorch's own execution of the "
        "reference needs no verdict: candidates are held against it.",
    ),
    Rule(
        name="Trust",
        text=" < ".join(LEVELS) + ". Computed from facts: source, identity, sealed raw samples and recipe make a "
        "record reproducible; this project's harness and a gate that did not refuse it make it measured here; a "
        "second card whose interval overlaps makes it replicated. Nobody can type a level in.",
    ),
    Rule(
        name="Speed-up",
        text="Against eager on the same device, torch version, batch, timer and cache state; otherwise it is refused "
        "and the two are named.",
    ),
    Rule(
        name="Stale",
        text=f"More than {STALE_AFTER.days} days older than the newest record, or an older torch than the newest that "
        "was measured.",
    ),
    Rule(
        name="Corrections",
        text="Nothing is rewritten. A new run names the run that it supersedes, and why; both stay.",
    ),
    Rule(name="Claim", text="Fastest known in this cohort as of a day. Never: fastest possible."),
)

SOURCES = (
    Source(
        name="KernelBench",
        address=KERNELBENCH.repository,
        licence="MIT",
        used_for="the problem, its public times on H100 cards, and when each was published and withdrawn",
    ),
    Source(
        name="PyTorch",
        address="https://github.com/pytorch/pytorch",
        licence="BSD-3-Clause",
        used_for="the reference, eager and inductor",
    ),
    Source(
        name="Simonyan and Zisserman, arXiv:1409.1556",
        address="https://arxiv.org/abs/1409.1556",
        licence="paper",
        used_for="the network",
    ),
    Source(
        name="NVIDIA data sheets",
        address="vgg_kernels/floor/devices.toml",
        licence="facts, each with its document",
        used_for="rates, bandwidths and clocks of the floors",
    ),
)

CONTRIBUTING = (
    Rule(
        name="A measurement of this package",
        text="Run `python -m vgg_kernels measure` in a clean clone and commit the run's folder under "
        "data/measured/DEVICE/. It is gated, timed and sealed by the command.",
    ),
    Rule(
        name="A measurement of your own (CSV and JSON)",
        text="Put a folder with samples.csv and provenance.json (data/README.md has the columns) under "
        "data/submitted/DEVICE/RUN/, seal it with `python -m vgg_kernels records seal FOLDER`, and look at "
        "`python -m vgg_kernels records check FOLDER`: it names file and row of whatever does not hold, and says how "
        "the run would rank and why.",
    ),
    Rule(
        name="An implementation of your own",
        text="Write a module with `build(reference) -> callable`, where the callable takes x and returns the logits. "
        "`python -m vgg_kernels records try MODULE.py --tier TIER` puts it through the gate, times it like ours and "
        "shows its standing; `--out FOLDER` keeps the run.",
    ),
)
