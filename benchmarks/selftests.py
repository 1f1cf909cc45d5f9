"""The table of self-tests in docs/accelerators.md, made anew from the events in data/selftests.

python -m benchmarks.selftests            # write it
python -m benchmarks.selftests --check    # exit code 1 where the page says something else
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accelerators.md"
FOLDER = ROOT / "data" / "selftests"
BEGIN, END = "<!-- selftests: written by python -m benchmarks.selftests -->\n", "<!-- /selftests -->"
NAMES = ("passed", "failed", "skipped")


def reports(folder: Path) -> list[dict[str, Any]]:
    """Return the newest self-test of each platform, runtime and hardware in the folder's files of events."""
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    for file in sorted(folder.glob("*.ndjson")):
        for line in file.read_bytes().splitlines():
            event = msgspec.json.decode(line)
            data = event["data"]
            if event["type"] != "assay.test.reported.v1" or data.get("test") != "selftest":
                continue
            runtime = data["execution"].get("runtime") or {}
            key = (data["execution"]["platform"], runtime.get("name", ""), data["hardware"]["id"])
            if key not in newest or newest[key]["time"] < event["time"]:
                newest[key] = event
    return [newest[key] for key in sorted(newest)]


def table(events: Iterable[Mapping[str, Any]]) -> str:
    """Return the table in Markdown, a row a self-test."""
    lines = [
        "| platform | hardware | runtime | day | passed | failed | skipped |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for event in events:
        data = event["data"]
        runtime = data["execution"].get("runtime") or {}
        checks = data.get("checks") or {}
        cells = [
            ", ".join(name.replace("_", " ") for name, one in checks.items() if one["outcome"] == of) for of in NAMES
        ]
        software = " ".join(filter(None, (runtime.get("name"), runtime.get("version"))))
        head = [data["execution"]["platform"], data["hardware"]["id"], software, str(event["time"])[:10]]
        lines.append(f"| {' | '.join([*head, *(cell or '—' for cell in cells)])} |")
    return "\n".join(lines) + "\n"


def page(text: str, rows: str) -> str:
    """Return the page with this table between its marks."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + rows + END + rest.partition(END)[2]


def main() -> int:
    """Write the page, or compare it."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = page(text, table(reports(FOLDER)))
    if "--check" in sys.argv[1:]:
        return 0 if wanted == text else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
