import re
from types import SimpleNamespace

import pytest
import torch

from vgg_kernels.measure import provenance
from vgg_kernels.measure.profile import OTHER, _is_kernel, profile, purpose, tidy


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::addmm", "matrix product"),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::clamp_min_", "pointwise"),
        ("aten::empty", "other"),
        ("graph_0_cpp_fused_convolution_relu_5", "pointwise"),
        ("graph_0_cpp_fused_convolution_max_pool2d_with_indices_relu_6", "pooling"),
        ("sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_kernel", "convolution"),
        ("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>", "layout"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_cublas", "matrix product"),
        ("triton_poi_fused_convolution_relu_1", "pointwise"),
        ("triton_tem_fused_convolution_2", "convolution"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar>", "pointwise"),
        ("conv3x3_kernel", "convolution"),
        ("stem_kernel", "convolution"),
        ("linear_kernel", "matrix product"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
    ],
)
def test_a_kernels_purpose_is_read_off_its_name(kernel, what):
    assert purpose(kernel) == what


def test_each_kernel_of_ours_has_a_purpose():
    sources = (provenance.PACKAGE / "kernels").glob("*.py")
    names = {name for path in sources for name in re.findall(r"^def (\w+_kernel)\(", path.read_text(), re.MULTILINE)}
    assert len(names) >= 4
    assert [name for name in names if purpose(name) == OTHER] == []


def test_rows_are_of_one_forward_and_shares_add_up():
    rows = tidy([("b", 4, 30.0), ("a", 2, 90.0), ("idle", 2, 0.0)], calls=2)
    assert [(r["kernel"], r["calls"], r["time_us"]) for r in rows] == [("a", 1.0, 45.0), ("b", 2.0, 15.0)]
    assert sum(r["share"] for r in rows) == pytest.approx(1.0)


def test_only_kernels_of_the_device_count_not_the_operators_and_regions_around_them():
    def event(key, device, annotation=False):
        return SimpleNamespace(key=key, device_type=device, is_user_annotation=annotation)

    events = [
        event("aten::conv2d", "DeviceType.CPU"),
        event("sm90_xmma_fprop", "DeviceType.CUDA"),
        event("Torch-Compiled Region: 0/0", "DeviceType.CUDA"),
        event("my span", "DeviceType.CUDA", annotation=True),
    ]
    assert [e.key for e in events if _is_kernel(e)] == ["sm90_xmma_fprop"]


def test_no_digest_of_a_compiled_graph_is_kept():
    [row] = tidy([("## Call CompiledFxGraph fcdsx4duer73vyxzmxa7f2 ##", 1, 1.0)], calls=1)
    assert "fcdsx" not in row["kernel"]


def test_a_profile_without_a_kernel_is_no_profile():
    """As where the profiler may not trace the device."""
    with pytest.raises(RuntimeError, match="saw no operator"):
        profile(lambda: None, kind="cpu", calls=1)


def test_a_real_profile_finds_the_convolution_where_the_time_goes():
    layer = torch.nn.Conv2d(64, 64, 3, padding=1)
    x = torch.rand(4, 64, 56, 56)
    rows = profile(lambda: torch.relu(layer(x)), kind="cpu", calls=2)
    by_kernel = {r["kernel"]: r for r in rows}
    assert by_kernel["aten::relu"]["calls"] == 1
    assert max(rows, key=lambda r: r["time_us"])["purpose"] == "convolution"
    assert sum(r["share"] for r in rows) == pytest.approx(1.0)
