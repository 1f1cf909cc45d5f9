"""Slugs are stable: the same device gets the same one, however its name was written down."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues.hardware import catalogue, cpu_slug, find, slug

WORDS = st.sampled_from(
    [
        "NVIDIA", "GeForce", "RTX", "4090", "Tesla", "V100-SXM2-16GB", "Intel(R)", "Xeon(R)", "Core(TM)", "CPU",
        "i7-12700H",
        "8480+", "@ 2.00GHz", "AMD", "EPYC", "96-Core", "Processor", "12th Gen", "with", "w/", "Radeon",
        "Graphics", "gen",
        "core", "cores", "tensor", "gpu", "Habana", "Gaudi2", "tpu", "16", "six", "edition",
        "™", "é", "®", "", "  ", "-",
    ]
)  # fmt: skip
NAMES = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=9).map(" ".join))


@given(NAMES)
def test_a_slug_is_its_own_slug(name):
    assert slug(slug(name)) == slug(name)


@given(NAMES)
def test_a_slug_is_words_joined_by_single_hyphens(name):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug(name))


@given(st.lists(WORDS, max_size=9))
def test_case_space_and_marks_do_not_matter(words):
    name = " ".join(words)
    assert slug(f"  {name.upper().replace(' ', '   ')} (TM)") == slug(name)


@given(st.sampled_from(sorted(catalogue())), st.sampled_from([" ", "_", "  ", ".", "/"]))
def test_a_known_id_is_found_however_it_is_spelled(id_, joint):
    assert find(id_.replace("-", joint).upper()).id == id_


@given(NAMES, st.integers(1, 512))
def test_a_cpu_s_id_is_a_slug_that_keeps_its_cores_apart(name, cores):
    id_ = cpu_slug(name, cores)
    assert slug(id_) == id_
    assert cpu_slug(name, cores + 1) != id_


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200 SXM", "nvidia-h200-sxm"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090"),
        ("GeForce RTX 4090", "nvidia-rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "nvidia-rtx-4090-laptop-gpu"),
        ("NVIDIA GeForce RTX 2060 with Max-Q Design", "nvidia-rtx-2060-maxq"),
        ("GeForce RTX 2060 Max-Q", "nvidia-rtx-2060-maxq"),
        ("Tesla T4", "nvidia-t4"),
        ("NVIDIA H100 Tensor Core GPU", "nvidia-h100"),
        ("AMD EPYC 9B14 96-Core Processor", "amd-epyc-9b14"),
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "amd-ryzen-7-7840u"),
        ("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz", "intel-xeon-platinum-8480-plus"),
        ("Intel(R) Xeon(R) Platinum 8480C", "intel-xeon-platinum-8480c"),
        ("12th Gen Intel(R) Core(TM) i7-12700H", "intel-core-i7-12700h"),
        ("Intel(R) Arc(TM) A770 Graphics (dGPU)", "intel-arc-a770"),
        ("Apple M3 Max", "apple-m3-max"),
        ("Habana Gaudi2", "intel-gaudi2"),
        ("™", "unknown"),
    ],
)
def test_the_published_slugs(name, expected):
    assert slug(name) == expected
