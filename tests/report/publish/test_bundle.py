"""One source of several modules."""

import ast

from vgg_kernels.report.publish.bundle import bundle


def run(text):
    space = {}
    exec(compile(text, "bundle", "exec"), space)
    return space


def test_a_bundle_brings_what_its_roots_need_and_nothing_else():
    text = bundle([("vgg_kernels.workload.network", "network")])
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"network", "Network", "Conv", "Linear", "lookup"} <= names
    assert "reference" not in names
    assert "vgg_kernels" not in text
    space = run(text)
    assert space["network"]("vgg19").parameters == 143_667_240


def test_names_that_two_modules_share_are_kept_apart():
    text = bundle([("vgg_kernels.kernels.stem", "run"), ("vgg_kernels.kernels.linear", "run")])
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(names) == len(set(names))
    assert {"run", "linear_run", "signature", "linear_signature"} <= set(names)


def test_a_definition_can_be_replaced():
    frozen = "def lookup(kind, name, table):\n    return table['vgg11']"
    text = bundle([("vgg_kernels.workload.network", "network")], {("vgg_kernels.workload.lookup", "lookup"): frozen})
    assert len(run(text)["network"]("anything").convs) == 8
    assert "class UnknownName" not in text


def test_a_local_that_shadows_a_global_is_left_alone():
    text = bundle([("vgg_kernels.kernels.plan", "plan")])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "plan":
            assert [a.arg for a in node.args.args] == ["network", "tier_name", "batch", "device"]
