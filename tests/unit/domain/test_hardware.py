"""The catalogue says nothing it cannot account for, and every name that people use finds its device."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

import domain
from domain.catalogues.hardware import (
    Figure,
    HardwareSpec,
    catalogue,
    choices,
    cpu_slug,
    fill,
    find,
    nearest,
    parts,
    require,
    slug,
    spec_from_event,
)
from domain.errors import InvalidEvent, UnknownHardware
from domain.vocabulary import HARDWARE_KINDS, PLATFORMS, PRECISIONS

SPECS = list(catalogue().values())
ACCELERATORS = [spec for spec in SPECS if spec.kind != "cpu"]
INT8_BELOW_16_BIT = {"nvidia-b300-sxm", "nvidia-gb300"}
"""Blackwell Ultra gave its int8 units up."""
NO_RATE = {"qualcomm-snapdragon-7-gen-4-qrd", "qualcomm-snapdragon-7-gen-5-qrd", "sa8650-proxy"}
"""Devices of published rows for which nobody publishes a rate; their note says so."""
GBPS_OF_MEMORY = {
    "DDR4": (20, 210), "DDR5": (60, 620), "LPDDR4": (10, 60), "LPDDR4X": (15, 550), "LPDDR5": (20, 820), "LPDDR5X": (30, 620),
    "GDDR5": (80, 350), "GDDR5X": (190, 560), "GDDR6": (80, 1000), "GDDR6X": (500, 1020), "GDDR7": (280, 1800),
    "HBM": (800, 840 * 1.08), "HBM2": (400, 1600), "HBM2E": (900, 3700), "HBM3": (1600, 5400), "HBM3E": (4500, 8200),
}  # fmt: skip
"""GB/s that devices with each kind of memory have."""


def each(check: Callable[[HardwareSpec], None], specs: Sequence[HardwareSpec] = SPECS) -> Callable[[], None]:
    """Make one test of a check of every device, which names all that fail: 859 tests of each would take longer to count than to run."""

    def test() -> None:
        wrong: dict[str, str] = {}
        for spec in specs:
            try:
                check(spec)
            except Exception as error:
                wrong[spec.id] = f"{type(error).__name__}: {error}"
        assert wrong == {}

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def each_accelerator(check: Callable[[HardwareSpec], None]) -> Callable[[], None]:
    """Make one test of a check of every device that is no processor."""
    return each(check, ACCELERATORS)


def evaluate(formula: str) -> float:
    """Compute what a formula such as `14 cores × 3.3e9 Hz × 64 FLOP/cycle (…) + …` says."""
    total = 0.0
    for term in formula.split(" (")[0].split(" + "):
        words = re.split(r" ([×÷]) ", term)
        value = number(words[0])
        for sign, factor in zip(words[1::2], words[2::2], strict=True):
            value = value * number(factor) if sign == "×" else value / number(factor)
        total += value
    return total


def number(text: str) -> float:
    leading = re.match(r"\d+(?:\.\d+)?(?:e\+?\d+)?", text)
    assert leading, text
    return float(leading.group())


def test_it_covers_the_field():
    assert len(SPECS) >= 800
    kinds = Counter(spec.kind for spec in SPECS)
    assert kinds["gpu"] >= 350
    assert kinds["cpu"] >= 300
    assert kinds["npu"] >= 30
    assert {"tpu", "other"} <= set(kinds)


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        (r"nvidia-(t4|a2|a10|a10g|a16|a30|a40|l4|l40|l40s|h20|h200-|h100-|h800|b200-|b300-|gb200|gb300|gh200-|gb10)", 24),
        (r"nvidia-a[18]00", 8), (r"nvidia-rtx-20\d0", 14), (r"nvidia-rtx-30\d0", 20), (r"nvidia-rtx-40\d0", 15),
        (r"nvidia-rtx-50\d0", 15), (r"nvidia-rtx-\d0\d0.*-laptop-gpu$", 18), (r"nvidia-rtx-\d0\d0.*-maxq$", 8),
        (r"nvidia-rtx-a\d+", 10), (r"nvidia-rtx-.*-ada", 12), (r"nvidia-rtx-pro-.*blackwell", 8), (r"nvidia-jetson-", 14),
        (r"amd-instinct-mi", 12), (r"amd-radeon-rx-6", 20), (r"amd-radeon-rx-7", 15), (r"amd-radeon-rx-9", 6),
        (r"amd-radeon-(ai-)?pro-", 14), (r"amd-radeon-(680m|780m|880m|890m|8050s|8060s)$", 6), (r"amd-ryzen-ai-npu", 3),
        (r"apple-m[1-5](-pro|-max|-ultra)?$", 17), (r"apple-m[1-5](-pro|-max|-ultra)?-gpu$", 18),
        (r"apple-m[1-5](-pro|-max|-ultra)?-neural-engine$", 16), (r"intel-arc-(a|b|pro-)", 19),
        (r"intel-core-ultra-\w+-\w+$", 30), (r"intel-core-ultra-\w+-\w+-igpu$", 25), (r"intel-ai-boost-", 6),
        (r"intel-core-i\d-1[234]\d", 25), (r"intel-xeon-", 75), (r"amd-epyc-[79]", 70), (r"aws-graviton[234]", 4),
        (r"ampere-|ampereone", 4), (r"qualcomm-snapdragon-8-", 6), (r"qualcomm-snapdragon-x", 5), (r"raspberry-pi-[45]", 2),
        (r"intel-gaudi", 3), (r"google-tpu-v", 6), (r"aws-(inferentia|trainium)", 4),
    ],
)  # fmt: skip
def test_it_has_the_devices_of_a_class(pattern, least):
    assert len([spec.id for spec in SPECS if re.match(pattern, spec.id)]) >= least


@each
def test_an_id_is_the_slug_of_the_name(spec):
    assert spec.id == slug(spec.name) == slug(spec.id)


def test_no_entry_is_hidden_by_another():
    document = msgspec.json.decode(files(domain).joinpath("data/hardware.json").read_bytes())
    assert len(document["hardware"]) == len(SPECS)


def test_no_name_means_two_devices():
    owners: dict[str, set[str]] = {}
    for spec in SPECS:
        for name in (spec.id, spec.name, *spec.aliases):
            owners.setdefault(slug(name), set()).add(spec.id)
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}


@each
def test_every_name_finds_its_device(spec):
    names = (spec.id, spec.name, spec.name.upper(), *spec.aliases)
    assert [name for name in names if find(name) != spec] == []


@each
def test_every_figure_says_how_it_is_known(spec):
    for path, figure in spec.figures().items():
        assert figure.value > 0, path
        if figure.status == "sourced":
            assert figure.source, path
            assert "{" not in figure.source, path
            assert figure.formula is None, path
        elif figure.status == "derived":
            assert figure.formula, path
            assert evaluate(figure.formula) == pytest.approx(figure.value, rel=1e-3), path
        else:
            assert (figure.status, figure.source, figure.formula) == ("unverified", None, None), path


@each
def test_words_are_those_of_the_vocabulary(spec):
    assert spec.kind in HARDWARE_KINDS
    assert spec.vendor
    assert spec.architecture
    assert 2015 < spec.year < 2027
    assert spec.platforms
    assert set(spec.platforms) <= set(PLATFORMS)
    for precisions in spec.platforms.values():
        assert precisions
        assert set(precisions) <= set(PRECISIONS)
    assert set(spec.peak_flops) <= set(PRECISIONS)


@each
def test_figures_are_plausible(spec):
    bounds = {
        "memory_bytes": (2 * 2**30, 400 * 2**30), "memory_bandwidth_bytes_per_s": (1e10, 1e13), "power_w": (5, 1500),
        "cache_bytes": (2**20, 1200 * 2**20), "cores": (1, 1100), "clock_hz": (5e8, 6e9),
    }  # fmt: skip
    for name, (low, high) in bounds.items():
        figure = getattr(spec, name)
        assert figure is None or low <= figure.value <= high, name
    for precision, figure in spec.peak_flops.items():
        assert 2e10 <= figure.value <= 2e16, precision
    assert spec.memory_bandwidth_bytes_per_s is not None
    assert spec.peak_flops or (spec.id in NO_RATE and spec.note)


@each
def test_bandwidth_is_that_of_its_memory(spec):
    low, high = GBPS_OF_MEMORY[spec.memory_type]
    assert low <= spec.memory_bandwidth_bytes_per_s.value / 1e9 <= high


@each
def test_nobody_measured_more_than_the_peak(spec):
    for precision, figure in spec.sustained_flops.items():
        assert 0.4 < figure.value / spec.peak_flops[precision].value <= 1, precision
        assert figure.status in ("sourced", "derived")
    if spec.sustained_bandwidth_bytes_per_s is not None:
        assert 0.6 < spec.sustained_bandwidth_bytes_per_s.value / spec.memory_bandwidth_bytes_per_s.value <= 1


@each
def test_a_chip_s_parts_are_in_the_catalogue(spec):
    assert spec.kind == "cpu" or not spec.parts
    assert {catalogue()[part].kind for part in spec.parts} <= {"gpu", "npu"}
    assert {catalogue()[part].vendor for part in spec.parts} <= {spec.vendor}


@each
def test_narrower_types_are_not_slower(spec):
    peak = {precision: figure.value for precision, figure in spec.peak_flops.items()}
    assert peak.get("fp16", 1e30) >= peak.get("fp32", 0)
    assert peak.get("fp16", 1e30) >= peak.get("tf32", 0)
    assert peak.get("fp8", 1e30) >= peak.get("bf16", 0)
    assert peak.get("fp4", 1e30) >= peak.get("fp8", 0)
    if {"fp16", "bf16"} <= set(peak) and spec.kind == "gpu":
        assert peak["fp16"] == pytest.approx(peak["bf16"], rel=0.01)
    if spec.id not in INT8_BELOW_16_BIT:
        assert peak.get("int8", 1e30) >= 0.999 * max(peak.get("fp16", 0), peak.get("bf16", 0))


@each_accelerator
def test_narrow_precisions_that_a_platform_offers_have_a_rate(spec):
    for platform, precisions in spec.platforms.items():
        for precision in {"int8", "fp8", "fp4"} & set(precisions):
            assert spec.peak(precision, platform) or spec.id in NO_RATE, (platform, precision)


def test_sourced_figures_carry_their_publisher_s_values():
    h200, b300, l4 = require("h200"), require("b300_sxm"), require("NVIDIA L4")
    assert h200.memory_bytes == Figure(
        value=151397597184, status="sourced", source="ai-dynamo/aiconfigurator systems/h200_sxm.yaml (Apache-2.0)"
    )
    assert (h200.peak_flops["bf16"].value, h200.memory_bandwidth_bytes_per_s.value) == (989e12, 4.8e12)
    assert b300.peak_flops["int8"].value == 153.5e12
    assert (l4.peak_flops["fp8"].value, l4.power_w.value) == (242e12, 72)
    borrowed = {spec.id for spec in SPECS if any("aiconfigurator" in (f.source or "") for f in spec.figures().values())}
    assert len(borrowed) == 14


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("rtx3090", "nvidia-rtx-3090"), ("rtx4090", "nvidia-rtx-4090"), ("4090", "nvidia-rtx-4090"),
        ("5090", "nvidia-rtx-5090"),
        ("i9_10940x", "intel-core-i9-10940x"), ("i7_12700h", "intel-core-i7-12700h"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090"), ("NVIDIA H200", "nvidia-h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm"), ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm-80gb"),
        ("Tesla T4", "nvidia-t4"), ("AMD MI300X GPU", "amd-instinct-mi300x"), ("Habana Gaudi2", "intel-gaudi2"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-platinum-8480-plus"), ("v5litepod", "google-tpu-v5e"),
    ],
)  # fmt: skip
def test_names_that_drivers_and_other_tools_use(name, id_):
    assert find(name).id == id_


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("RTX 4090 Laptop", "nvidia-rtx-4090-laptop-gpu"), ("4090 mobile", "nvidia-rtx-4090-laptop-gpu"),
        ("RTX 2070 Super Laptop", "nvidia-rtx-2070-super-mobile"), ("rtx4070tisuper", "nvidia-rtx-4070-ti-super"),
        ("RTX 2060 Max-Q", "nvidia-rtx-2060-maxq"), ("9070 XT", "amd-radeon-rx-9070-xt"), ("MI300X", "amd-instinct-mi300x"),
        ("Ryzen AI Max+ 395", "amd-ryzen-ai-max-plus-395"), ("Strix Halo", "amd-ryzen-ai-max-plus-395"),
        ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "amd-ryzen-ai-9-hx-370"), ("5950X", "amd-ryzen-9-5950x"),
        ("13900K", "intel-core-i9-13900k"), ("Intel(R) Core(TM) Ultra 7 258V", "intel-core-ultra-7-258v"),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", "intel-arc-140v"), ("M4 Max", "apple-m4-max-gpu"), ("Apple M4 Max", "apple-m4-max"),
        ("MacBook Pro M3 Max", "apple-m3-max-gpu"), ("Mac Studio M2 Ultra", "apple-m2-ultra-gpu"),
        ("Jetson Orin Nano", "nvidia-jetson-orin-nano-8gb"), ("Pi 5", "raspberry-pi-5"), ("8 Gen 3", "qualcomm-snapdragon-8-gen-3"),
        ("Galaxy S24", "samsung-galaxy-s24"), ("GH200", "nvidia-gh200-96gb"), ("A100 80GB", "nvidia-a100-sxm-80gb"),
        ("H800", "nvidia-h800"), ("Xeon Platinum 8260M", "intel-xeon-8260m"), ("trillium", "google-tpu-v6e"),
    ],
)  # fmt: skip
def test_names_as_people_write_them(name, id_):
    assert find(name).id == id_


@pytest.mark.parametrize(
    ("name", "among"),
    [
        ("NVIDIA A100", "nvidia-a100-pcie-40gb"), ("nvidia-v100", "nvidia-v100-sxm-32gb"),
        ("Tesla V100 PCIe", "nvidia-v100-pcie-16gb"), ("Lunar Lake", "intel-core-ultra-7-258v"),
        ("Jetson Orin", "nvidia-jetson-orin-nano-8gb"), ("Raspberry Pi", "raspberry-pi-5"),
    ],
)  # fmt: skip
def test_a_name_of_several_devices_is_none_of_them_and_lists_them(name, among):
    assert find(name) is None
    assert among in choices(name)
    assert all(find(choice).id == choice for choice in choices(name))
    with pytest.raises(UnknownHardware) as raised:
        require(name)
    assert set(raised.value.nearest) == set(choices(name))
    assert among in raised.value.remedy


def test_a_name_of_one_device_or_of_too_many_has_no_choices():
    assert choices("RTX 4090") == choices("nvidia rtx") == choices("no such thing") == []


def test_a_chip_comes_with_its_gpu_and_npu():
    assert parts("apple-m4-max") == ("apple-m4-max", "apple-m4-max-gpu", "apple-m4-max-neural-engine")
    assert "intel-core-ultra-7-258v-igpu" in parts("intel-core-ultra-7-258v")
    assert "amd-radeon-8060s" in parts("amd-ryzen-ai-max-plus-395")
    assert parts("nvidia-t4") == ("nvidia-t4",)
    assert parts("no-such-thing") == ("no-such-thing",)
    assert require("amd-ryzen-ai-max-plus-395-8c").parts == ()


def test_a_question_about_any_hardware_is_about_what_people_ask_for():
    usual = {spec.id for spec in SPECS if not spec.asked_only}
    assert {
        "nvidia-t4",
        "nvidia-h100-sxm",
        "nvidia-rtx-4090",
        "amd-instinct-mi300x",
        "apple-m4-max-gpu",
        "intel-arc-b580",
    } <= usual
    assert {"nvidia-gtx-1080", "intel-xeon-silver-4216r"} & usual == set()
    assert len(usual) < 250


@pytest.mark.parametrize(("name", "fp16"), [("3090", 71e12), ("4090", 165.2e12), ("5090", 209.5e12)])
def test_16_bit_rates_are_those_with_fp32_accumulation(name, fp16):
    assert require(name).peak("fp16", "cuda").value == pytest.approx(fp16, rel=0.002)


@pytest.mark.parametrize(
    ("name", "precision", "share"),
    [
        ("gaudi2", "bf16", 0.97), ("a100", "bf16", 0.87), ("h100", "bf16", 0.80), ("b200", "bf16", 0.78),
        ("mi325x", "bf16", 0.60), ("mi300x", "bf16", 0.51), ("h100", "fp8", 0.71),
    ],
)  # fmt: skip
def test_published_matrix_rates_stand_beside_the_peaks(name, precision, share):
    spec = require(name)
    figure = spec.sustained_flops[precision]
    assert figure.value / spec.peak_flops[precision].value == pytest.approx(share, abs=0.01)
    assert "stas00/ml-engineering" in figure.source
    assert spec.figures()[f"sustained_flops.{precision}"] == figure


class TestPeak:
    def test_mixed_forms_count_as_what_they_compute_in(self):
        spec = require("h100")
        assert spec.peak("amp", "cuda") == spec.peak("amp-fp16") == spec.peak_flops["fp16"]
        assert spec.peak("amp-bf16") == spec.peak_flops["bf16"]
        assert spec.peak("w8a8") == spec.peak_flops["int8"]
        assert spec.peak("w4a16") == spec.peak_flops["fp16"]

    def test_a_missing_float_type_is_computed_in_fp32_and_says_so(self):
        spec = require("v100")
        stand_in = spec.peak("bf16", "cuda")
        assert stand_in.value == spec.peak_flops["fp32"].value
        assert stand_in.status == "derived"
        assert stand_in.formula.startswith("bf16 at the fp32 rate")
        assert spec.peak("tf32").value == spec.peak_flops["fp32"].value

    def test_integers_and_narrow_floats_have_no_stand_in(self):
        assert require("v100").peak("int8") is None
        assert require("a100").peak("fp8") is None
        assert require("h100").peak("fp4") is None

    def test_a_platform_that_cannot_drive_the_device_has_no_peak(self):
        assert require("h100").peak("fp16", "rocm") is None
        assert require("mi300x").peak("fp16", "cuda") is None

    def test_a_browser_does_not_reach_the_matrix_units(self):
        spec = require("4090")
        assert spec.peak("fp16", "webgpu").value == spec.peak_flops["fp32"].value
        assert spec.peak("fp32", "webgpu") == spec.peak_flops["fp32"]
        assert spec.peak("int8", "webgpu") is None


class TestCpus:
    def test_a_whole_processor_keeps_its_id(self):
        assert cpu_slug("AMD EPYC 7763 64-Core Processor", 64) == "amd-epyc-7763"
        assert cpu_slug("Intel(R) Core(TM) i9-10940X CPU @ 3.30GHz", 14) == "intel-core-i9-10940x"

    def test_a_slice_and_an_unnamed_series_have_their_cores_in_the_id(self):
        assert cpu_slug("AMD EPYC", 2) == "amd-epyc-2c"
        assert cpu_slug("AMD EPYC 9005", 2) == "amd-epyc-9005-2c"
        assert cpu_slug("AMD EPYC 7763 64-Core Processor", 4) == "amd-epyc-7763-4c"
        assert cpu_slug("AMD EPYC 9B14 96-Core Processor", 8) == "amd-epyc-9b14-8c"

    def test_no_cores_is_no_cpu(self):
        with pytest.raises(ValueError, match="1 or more"):
            cpu_slug("AMD EPYC", 0)

    def test_a_slice_of_a_known_processor_has_its_share(self):
        whole, part = require("amd-epyc-7763"), require("amd-epyc-7763-4c")
        assert part.id == "amd-epyc-7763-4c"
        assert part.cores.value == 4
        assert part.peak("fp32", "cpu").value == pytest.approx(whole.peak("fp32").value / 16)
        assert part.memory_bandwidth_bytes_per_s.status == "derived"
        assert (part.memory_bytes, part.power_w) == (None, None)

    def test_nothing_is_a_slice_of_what_is_smaller_or_no_cpu(self):
        assert find("amd-epyc-7763-65c") is None
        assert find("amd-epyc-7763-0c") is None
        assert find("nvidia-h200-sxm-4c") is None


def test_an_unknown_name_comes_with_the_nearest():
    assert find("nvidia h300") is None
    assert "nvidia-rtx-4090" in nearest("nvidia rtx 4090 xt")
    assert len(nearest("nvidia rtx", n=2)) <= 2
    with pytest.raises(UnknownHardware, match="amd-instinct-mi300x") as raised:
        require("amd mi300z", field="hardware[0]")
    assert raised.value.field == "hardware[0]"


def test_fill_takes_only_what_is_missing():
    own = HardwareSpec(
        id="nvidia-h200-sxm", name="mine", power_w=Figure(value=500, status="measured", source="nvidia-smi"),
        peak_flops={"fp16": Figure(value=7e14, status="measured", source="a probe")},
    )  # fmt: skip
    full = fill(own, require("h200"))
    assert (full.name, full.power_w.value, full.peak_flops["fp16"].value) == ("mine", 500, 7e14)
    assert full.peak_flops["bf16"].value == 989e12
    assert full.memory_bytes == require("h200").memory_bytes


DESCRIBED = {
    "hardware": {"id": "some-npu", "kind": "npu"},
    "name": "Some NPU",
    "platforms": [
        {"platform": "qnn", "available": True, "precisions": ["int8"]},
        {"platform": "cuda", "available": False, "reason": "no NVIDIA device"},
    ],
    "spec": {
        "memory_bytes": {"value": 8e9, "status": "unverified"},
        "peak_flops": {"int8": {"value": 4e13, "status": "sourced", "source": "a brochure"}},
        "sustained_flops": {"int8": {"value": 2e13, "status": "measured", "source": "a probe"}},
    },
}


def test_a_described_event_becomes_a_spec():
    spec = spec_from_event(DESCRIBED)
    assert (spec.id, spec.kind, spec.platforms) == ("some-npu", "npu", {"qnn": ("int8",)})
    assert spec.peak("int8", "qnn") == Figure(value=4e13, status="sourced", source="a brochure")
    assert spec.sustained_flops["int8"].value == 2e13
    assert spec.power_w is None
    assert spec.peak("int8", "cuda") is None


def test_a_described_event_without_figures_is_a_spec_without_figures():
    assert spec_from_event({"hardware": {"id": "bare"}}).figures() == {}


@pytest.mark.parametrize("spec", [{"power_w": 5}, {"power_w": {"value": 0, "status": "sourced"}}])
def test_a_misshapen_event_is_refused_with_its_path(spec):
    with pytest.raises(InvalidEvent, match=r"power_w"):
        spec_from_event(DESCRIBED | {"spec": spec})


def test_specs_survive_json():
    for spec in SPECS:
        assert msgspec.json.decode(msgspec.json.encode(spec), type=HardwareSpec) == spec


def test_the_page_s_table_of_counts_is_true():
    page = Path(__file__).parents[3].joinpath("docs", "hardware-catalogue.md").read_text()
    rows = {
        label: tuple(map(int, cells.split("|")))
        for label, cells in re.findall(r"^\| (\w+) \| ([\d |]*\d) \|$", page, flags=re.MULTILINE)
    }
    groups = {kind: [spec for spec in SPECS if spec.kind == kind] for kind in HARDWARE_KINDS} | {"all": SPECS}
    for label, specs in groups.items():
        statuses = Counter(figure.status for spec in specs for figure in spec.figures().values())
        assert rows[label] == (len(specs), statuses["sourced"], statuses["derived"], statuses["unverified"]), label


def test_an_id_means_its_entry_by_every_way_of_looking_it_up():
    for name, spec in catalogue().items():
        # A blank goes the long way.
        assert find(name) is find(f"{name} ") is spec
