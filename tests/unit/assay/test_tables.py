"""Tables of a terminal: what a call consists of, and why a row is doubted, in figures."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from assay.cli.measure.run_output import progress
from assay.cli.tables import doubts, measured_parts, ranks_table


def shown(table: Any) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(table)
    return console.file.getvalue().replace("\u202f", " ")


def test_the_phases_of_a_training_step_are_shown_where_they_were_measured(build) -> None:
    plain, trained = build.measurement(), build.measurement(batch_size=8)
    trained["data"]["metrics"] |= {"forward_ms": 4.5, "backward_ms": 5.25, "optimizer_ms": 19.0}
    assert measured_parts([plain]) is None
    text = shown(measured_parts([plain, trained]))
    assert "forward" in text and "5.25 ms" in text and "19.0 ms" in text and "loss" not in text
    assert text.count("tiny") == 1 and "batch 8" in text


def test_sound_is_shown_beside_its_length_and_what_comes_before_the_model_apart(build) -> None:
    heard = build.measurement()
    heard["data"]["metrics"] |= {"preprocess_ms": 55.0, "realtime_factor": 950.0}
    text = shown(measured_parts([heard]))
    assert "55.0 ms" in text and "× 950" in text


def test_a_doubt_keeps_its_figure_and_says_how_many_rows_share_it(build) -> None:
    rows = [build.measurement(batch_size=size) for size in (1, 2, 4)]
    for row, share in zip(rows, (12, 30, 5), strict=True):
        row["data"]["validity"] = {"verdict": "suspect", "reasons": [f"the halves differ by {share} %"]}
    rows[2]["data"]["validity"]["reasons"].append("other programs used 41 % of the processor")
    assert doubts(rows) == [
        "3 suspect or invalid, such as: the halves differ by 12 %",
        "1 suspect or invalid: other programs used 41 % of the processor",
    ]


def test_a_finished_case_says_its_median_its_interval_and_why_it_is_doubted(build, capsys) -> None:
    from domain.events import decode_event, encode_event
    from runner.campaign.run import Progress
    from runner.protocol.tasks import Case

    event = build.measurement(p50=2.5)
    event["data"]["validity"] = {"verdict": "suspect", "reasons": ["the halves differ by 12 %"]}
    fact = decode_event(encode_event(event)).data
    case = Case(model="acme/tiny", platform="cpu", precision="fp32", workload=fact.workload)
    with progress() as show:
        show(Progress(done=1, total=1, case=case, outcome="suspect", fact=fact))
    said = " ".join(capsys.readouterr().err.split())
    assert "suspect, 2.50 ms (2.48–2.52): the halves differ by 12 %" in said


def test_every_rank_of_a_training_has_a_line(build):
    plain, trained = build.measurement(), build.measurement()
    rank = {"threads": 1, "peak_memory_bytes": 5e8, "computing_core_share": 0.52, "exposed_communication_ms": 3.5}
    ranks = [{"rank": index, "node": index, "device": "cpu", **rank} for index in range(2)]
    trained["data"]["observed"]["details"] = {"ranks": ranks, "communication": {"all_reduce_ms": 4.25}}
    trained["data"]["execution"]["options"] = {"strategy": "ddp"}
    assert ranks_table([plain]) is None
    text = shown(ranks_table([plain, trained]))
    assert "0 (node 0 cpu)" in text and "1 (node 1 cpu)" in text
    assert text.count("52%") == 2 and text.count("4.25") == 2 and "ddp" in text
