"""How many honest rows would the quarantine of shared measurements hold back for being far from predictions?

`python -m research.quarantine URL` asks a running service for a sample of the published single calls that ship with Assay,
predicts each without its own row, and counts those that lie 2, 3 and 5 times outside of the interval. The predictor has
seen most of these rows: what comes of it is a lower bound.

Answer: of 360 rows 6, 3 and 2 (docs/sharing.md).
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from assay.client import Client
from domain.errors import AssayError

FACTORS = (2, 3, 5)
SAMPLE = """
SELECT model_id, hardware_id, platform, precision, batch_size, mode, sequence_length, image_size, compiled, runtime_name,
    coalesce(latency_p50_ms, latency_mean_ms, batch_size / throughput_per_s * 1000) AS took
FROM measurements
WHERE origin = 'imported' AND NOT starts_with(source, 'urn:assay:shared:') AND batch_size IS NOT NULL AND precision IS NOT NULL AND output_tokens IS NULL
    AND hardware_count = 1 AND coalesce(scenario, 'single_stream') = 'single_stream'
ORDER BY hash(event_id) LIMIT {rows}
"""


def predicted(client: Client, row: dict[str, Any]) -> dict[str, Any] | None:
    runtime = row["runtime_name"] if row["runtime_name"] not in ("torch", "openvino") else None
    names = ("platform", "precision", "batch_size", "mode", "sequence_length", "image_size", "compiled")
    try:
        return client.predict(
            row["model_id"],
            hardware=row["hardware_id"],
            call="forward",
            runtime=runtime,
            faster=False,
            **{name: row[name] for name in names},
        )
    except AssayError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    with Client(options.server) as client:
        answer = client.query(SAMPLE.format(rows=options.rows), limit=options.rows)
        heads = [column["name"] for column in answer["columns"]]
        for values in answer["rows"]:
            row = dict(zip(heads, values, strict=True))
            prediction = predicted(client, row) if row["took"] else None
            if prediction is None:
                counts["no answer"] += 1
            elif prediction["basis"] in ("measured", "imported", "abstained") or not prediction["interval_covered"]:
                counts["no interval that measurement supports"] += 1
            else:
                counts["predicted"] += 1
                low, high = prediction["latency_ms_low"], prediction["latency_ms_high"]
                for factor in FACTORS:
                    counts[f"{factor} times outside"] += not low / factor < row["took"] < high * factor
    for name, count in counts.items():
        print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
