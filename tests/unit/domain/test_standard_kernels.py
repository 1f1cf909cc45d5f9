"""The standard kernels, and the work of kernels as it is usually counted."""

from __future__ import annotations

import numpy as np
import pytest

from domain.kernels import SIZES
from domain.payloads import KernelTypes
from domain.performance.kernel_work import direct_work, kernel_work
from domain.performance.standard_kernels import STANDARD_KERNELS

FP16 = KernelTypes(activations="fp16", weights="fp16", arithmetic="fp16")
CONVOLUTION = {"batch": 2, "in_channels": 4, "out_channels": 8, "height": 10, "width": 10, "kernel_height": 3,
               "kernel_width": 3, "padding": 1}  # fmt: skip


def test_each_standard_kernel_has_a_name_of_its_own_and_the_sizes_of_its_operator() -> None:
    assert len(STANDARD_KERNELS) == len({kernel.id for kernel in STANDARD_KERNELS}) == 29
    for kernel in STANDARD_KERNELS:
        sizes = SIZES[kernel.operator]
        assert set(sizes.needed) <= set(kernel.sizes) <= {*sizes.needed, *sizes.optional}
        work = direct_work(kernel.operator, kernel.sizes, FP16, phase=kernel.phase)
        assert work is not None
        assert float(work.flops) > 0 < float(work.bytes)


def test_they_lie_on_both_sides_of_every_ridge() -> None:
    intensities = [
        float(work.flops / work.bytes)
        for kernel in STANDARD_KERNELS
        if (work := direct_work(kernel.operator, kernel.sizes, FP16, phase=kernel.phase))
    ]
    assert min(intensities) < 1
    assert max(intensities) > 1000


def test_a_direct_convolution_takes_as_many_multiplications_as_its_filter_has_values() -> None:
    least, direct = kernel_work("convolution", CONVOLUTION, FP16), direct_work("convolution", CONVOLUTION, FP16)
    assert least is not None
    assert direct is not None
    assert float(direct.flops) == 2 * 2 * 10 * 10 * 8 * 4 * 9 == pytest.approx(9 * float(least.flops))
    assert float(direct.bytes) == float(least.bytes)


def test_an_elementwise_operator_reads_one_tensor_where_nobody_counted_them() -> None:
    sizes = {"rows": np.array([10.0, 10.0]), "row_size": np.array([8.0, 8.0])}
    work = direct_work("elementwise", sizes | {"inputs": np.array([0.0, 2.0])}, FP16)
    assert work is not None
    assert work.bytes.tolist() == [80 * 2 * 2, 80 * 3 * 2]
    bare = direct_work("elementwise", sizes, FP16)
    assert bare is not None
    assert bare.bytes.tolist() == [80 * 2 * 2] * 2


def test_what_has_no_usual_count_has_none() -> None:
    mixture = {"tokens": 8, "hidden_size": 64, "inner_size": 128, "experts": 8, "top_k": 2}
    assert direct_work("moe", mixture, FP16) is None
    assert direct_work("collective", {"ranks": 2, "elements": 8}, FP16) is None
