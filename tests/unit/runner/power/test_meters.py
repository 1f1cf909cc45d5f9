"""Meters on folders as the kernel's documentation describes them, and on one whose counter moves with the work."""

from __future__ import annotations

import os
import plistlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

from domain.performance.energy import figures
from domain.verdicts import judge
from runner.measure.measuring import circumstances_of, measure
from runner.measure.power.battery import find_battery
from runner.measure.power.choice import Rapl, find_rapl, host_meter, power_of_sample, zones
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Unread
from runner.measure.power.sampling import Sampling, rest
from runner.measure.stopping import Method

CALL_UJ = 200_000


def zone(root: Path, folder: str, name: str, energy: int = 0, most: int = 262_143_328_850) -> Path:
    """A zone of powercap (Documentation/power/powercap/powercap.rst); Linux shows zones of zones beside them too."""
    made = root / folder
    made.mkdir(parents=True)
    for file, text in (("name", name), ("energy_uj", str(energy)), ("max_energy_range_uj", str(most))):
        (made / file).write_text(f"{text}\n")
    return made


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A server of two sockets with memory counters."""
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 700_000)
    zone(tmp_path, "intel-rapl:0:1", "dram", 50_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 2_000_000)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_000_000)
    return tmp_path


def test_packages_and_memory_are_added_and_no_part_counts_twice(server: Path) -> None:
    assert [folder.name for folder in zones(server)] == ["intel-rapl:0", "intel-rapl:1", "intel-rapl:0:1"]
    meter = find_rapl(server)
    assert isinstance(meter, Rapl)
    assert meter.read().energy_j == 0
    for folder, energy in (("intel-rapl:0", 1_500_000), ("intel-rapl:1", 2_250_000), ("intel-rapl:0:0", 9_999_999)):
        (server / folder / "energy_uj").write_text(f"{energy}\n")
    assert meter.read().energy_j == pytest.approx(0.75)
    assert "package-0 and package-1 and dram" in meter.scope


def test_a_counter_that_ran_over_goes_on(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 990_000, most=999_999)
    meter = find_rapl(tmp_path)
    assert isinstance(meter, Rapl)
    (folder / "energy_uj").write_text("40000\n")
    assert meter.read().energy_j == pytest.approx(0.05)


def test_a_counter_that_vanishes_shows_nothing(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0")
    meter = find_rapl(tmp_path)
    assert isinstance(meter, Rapl)
    (folder / "energy_uj").unlink()
    assert meter.read().energy_j is None


def test_why_there_is_no_counter_is_said_with_what_helps(tmp_path: Path) -> None:
    for root in (tmp_path / "absent", tmp_path):
        found = find_rapl(root)
        assert isinstance(found, Unread) and "modprobe intel_rapl_msr" in str(found)


@contextmanager
def nobody() -> Iterator[None]:
    """Root reads everything: be nobody for as long as the block lasts."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_counter_for_root_alone_names_the_permission() -> None:
    # Beside pytest's own folders, which nobody may open.
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        zone(root, "intel-rapl:0", "package-0").joinpath("energy_uj").chmod(0)
        with nobody():
            found = find_rapl(root)
    assert isinstance(found, Unread) and "chmod a+r" in str(found)


def test_a_series_gets_the_energy_that_its_meter_counted(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0") / "energy_uj"
    meter = find_rapl(tmp_path)
    assert isinstance(meter, Rapl)

    def work() -> None:
        sleep(0.01)
        file.write_text(f"{int(file.read_text()) + CALL_UJ}\n")

    idle = rest(meter, 0.2)
    series = measure(work, lambda: None, Method(iterations=60), meter=meter, idle=idle)
    energy = series.conditions.energy
    assert energy is not None and energy.counted_j == pytest.approx(60 * CALL_UJ / 1e6)
    assert energy.idle_w == 0 and energy.seconds is not None and energy.seconds >= 0.6
    assert energy.readings is not None and energy.readings >= 4
    told = figures(energy, calls=60, batch_size=2, tokens=None)
    assert told["energy_j"] == pytest.approx(0.2) and told["energy_per_item_j"] == pytest.approx(0.1)


def test_without_a_meter_the_reason_stands_in_the_conditions() -> None:
    series = measure(lambda: sleep(0.001), lambda: None, Method(iterations=10), meter=Unread("no counter.", "Buy one."))
    assert series.conditions.energy is not None
    assert series.conditions.energy.unread == "no counter. Buy one."


def test_a_meter_that_fell_silent_spoils_energy_and_not_the_times(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0")
    meter = find_rapl(tmp_path)
    assert isinstance(meter, Rapl)
    with Sampling(meter) as sampling:
        sleep(0.3)
        (folder / "energy_uj").unlink()
        sleep(0.3)
    assert sampling.energy().unread
    told = {"conditions": {"energy": {"meter": "rapl", "counted_j": 5.0, "seconds": 9.0, "longest_gap_s": 4.0}}}
    found = judge([10.0, 10.1, 10.2] * 20, ["latency_ms", "energy_j", "power_w"], circumstances_of(told, None))
    assert found.metrics["energy_j"].verdict == "invalid"
    assert "was not read for 4.0 s" in found.metrics["energy_j"].reasons[-1]
    assert (found.metrics["latency_ms"].verdict, found.verdict) == ("valid", "valid")


def supply(root: Path, **files: str) -> Path:
    folder = root / files.pop("folder", "BAT0")
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("files", "watts"),
    [
        ({"power_now": "8500000"}, 8.5),
        ({"current_now": "-700000", "voltage_now": "12000000"}, 8.4),
    ],
)
def test_a_battery_shows_the_power_that_leaves_it(tmp_path: Path, files: dict[str, str], watts: float) -> None:
    found = find_battery(supply(tmp_path, type="Battery", status="Discharging", **files))
    assert not isinstance(found, Unread)
    assert found.read().power_w == pytest.approx(watts)
    (tmp_path / "BAT0" / "status").write_text("Charging\n")
    assert found.read().power_w is None


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"type": "Mains", "online": "1"}, "no battery"),
        ({"type": "Battery", "scope": "Device", "status": "Discharging", "power_now": "1"}, "no battery"),
        ({"type": "Battery", "status": "Full", "power_now": "0"}, "Unplug"),
        ({"type": "Battery", "status": "Discharging"}, "neither power nor current"),
    ],
)
def test_a_battery_that_says_nothing_is_told(tmp_path: Path, files: dict[str, str], why: str) -> None:
    found = find_battery(supply(tmp_path, **files))
    assert isinstance(found, Unread) and why in str(found)


def card(root: Path, number: int, driver: str, **files: str) -> None:
    folder = root / f"card{number}" / "device" / "hwmon" / f"hwmon{number}"
    folder.mkdir(parents=True)
    for name, text in {"name": driver, **files}.items():
        (folder / name).write_text(f"{text}\n")


def test_the_one_card_of_a_driver_is_read(tmp_path: Path) -> None:
    card(tmp_path, 0, "i915", energy1_input="1500000")
    card(tmp_path, 1, "amdgpu", power1_average="95000000")
    intel, amd = find_hwmon(("i915", "xe"), tmp_path), find_hwmon(("amdgpu",), tmp_path)
    assert not isinstance(intel, Unread) and not isinstance(amd, Unread)
    assert (intel.read().energy_j, intel.read().power_w) == (1.5, None)
    assert (amd.read().energy_j, amd.read().power_w) == (None, 95.0)
    assert intel.scope == "the graphics card card0"


def test_of_two_cards_none_is_taken_for_the_other(tmp_path: Path) -> None:
    card(tmp_path, 0, "amdgpu", power1_input="1000000")
    card(tmp_path, 1, "amdgpu", power1_input="2000000")
    found = find_hwmon(("amdgpu",), tmp_path)
    assert isinstance(found, Unread) and "2 cards" in found.reason
    assert isinstance(find_hwmon(("xe",), tmp_path), Unread)


def test_of_several_cards_the_one_at_an_address_is_read(tmp_path: Path) -> None:
    for number, address in enumerate(("0000:05:00.0", "0000:c1:00.0")):
        (tmp_path / "pci" / address).mkdir(parents=True)
        (tmp_path / f"card{number}").mkdir()
        (tmp_path / f"card{number}" / "device").symlink_to(tmp_path / "pci" / address)
        card(tmp_path, number, "amdgpu", power1_input=f"{number + 1}000000")
    found = find_hwmon(("amdgpu",), tmp_path, address="0000:C1:00.0")
    assert not isinstance(found, Unread) and found.read().power_w == 2.0
    assert isinstance(find_hwmon(("amdgpu",), tmp_path, address="0000:ff:00.0"), Unread)


def test_a_list_of_powermetrics_gives_the_power_of_the_whole_chip() -> None:
    new = {"elapsed_ns": 250_000_000, "processor": {"combined_power": 12500.0, "cpu_power": 9000.0}}
    old = {"elapsed_ns": 250_000_000, "processor": {"cpu_power": 900, "gpu_power": 4100, "ane_power": 0}}
    assert power_of_sample(plistlib.dumps(new) + b"\x00") == 12.5
    assert power_of_sample(b"\n" + plistlib.dumps(old)) == 5.0
    assert power_of_sample(plistlib.dumps({"processor": {}})) is None
    assert power_of_sample(b"powermetrics must be invoked as the superuser") is None


def test_this_machine_has_a_meter_or_says_why_not() -> None:
    found = host_meter()
    if isinstance(found, Unread):
        assert found.reason and found.reason.endswith(".")
    else:
        assert found.read().at_s > 0
        found.close()
