"""The page about decisions: tables beside the bars, and the picture of success and overspend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.choices_devices import POOL, POOLED
from benchmarks.choices_memory import USUAL
from benchmarks.choices_served import BAR_OVERSPEND, BAR_SUCCESS, SHOTS

__all__ = ["page", "picture"]

OURS = ("ours, nothing measured", "ours, 1 checked", "ours, 2 checked", "ours, 3 checked")
PHYSICS = "physics alone"
CLOSE_BY = 0.03
BAR_MEDIAN, BAR_P90, BAR_FITS = 0.03, 0.15, 0.97


def page(found: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [_opening(found), _served(found["served"]), _chances(found["served"]["reliability"])]
    parts += [_devices(found["devices"])] if "devices" in found else []
    parts += [_memory(found["memory"])] if "memory" in found else []
    return "\n".join(line for part in parts for line in part) + "\n"


def _opening(found: Mapping[str, Any]) -> Iterator[str]:
    lines = found["served"]["lines"]
    yield "# How good decisions are"
    yield ""
    yield "Made by `python -m benchmarks.choices --data DATA --traces TRACES`; do not edit. A model that is asked about took no part in"
    yield "what answers: neither in training nor in choosing the rule. Macro is the mean over models (memory: families)."
    yield ""
    yield "| what | bar | measured | met |"
    yield "| --- | --- | --- | --- |"
    for name in OURS[:3]:
        one = lines[name]
        met = one["success"] >= BAR_SUCCESS and one["overspend"] <= BAR_OVERSPEND
        near = one["macro_success"] >= BAR_SUCCESS and one["macro_overspend"] <= BAR_OVERSPEND
        macro = f"macro {_percent(one['macro_success'])} / {_percent(one['macro_overspend'])}"
        yield _row(f"success / overspend, {name.removeprefix('ours, ')}", f"≥ {_percent(BAR_SUCCESS)} / ≤ {_percent(BAR_OVERSPEND)}",
                   f"{_percent(one['success'])} / {_percent(one['overspend'])} ({macro})", f"{_met(met)}{'' if met == near else f' (macro: {_met(near)})'}")  # fmt: skip
    for title, by in sorted(found.get("devices", {}).items(), key=lambda one: one[0] != POOL):
        one = by["ours"]
        met = one["median"] <= BAR_MEDIAN and one["p90"] <= BAR_P90
        yield _row(f"regret: {title}", f"median ≤ {_percent(BAR_MEDIAN)}, p90 ≤ {_percent(BAR_P90)}",
                   f"{_percent(one['median'])}, {_percent(one['p90'])}", _met(met))  # fmt: skip
    for title, one in found.get("memory", {}).items():
        met = one["right"] >= BAR_FITS and not one["sure_wrong"]
        wrong = f"{one['sure_wrong']:,} of {one['sure_fits']:,} sure answers wrong"
        yield _row(f"fits or not: {title}", f"≥ {_percent(BAR_FITS)}, none surely wrong",
                   f"{_percent(one['right'])}, {wrong}", _met(met))  # fmt: skip
    yield ""


def _served(told: Mapping[str, Any]) -> Iterator[str]:
    lines, rules = told["lines"], told["rules"]
    models = list(lines[OURS[0]]["by_model"])
    yield "## Machines for a served language model"
    yield ""
    yield "A question is a model with tokens in and out, the longest time to the first token (0.5, 1, 2, 5 s) and between tokens (10, 20,"
    yield "30, 50, 100 ms), and 50, 200 or 1,000 requests at once. Choices are the machines (devices × count) that the model was"
    yield "measured on, at least three, each with its deployments under three loads or more. As LLM-Pilot has it (Lazuka et al., SC'24),"
    yield "copies = requests ÷ the load that a copy is given, rounded up; a choice succeeds when that many machines serve all by what was"
    yield "measured; overspend is what successes cost above the cheapest that does, on average. *Exact* asks it of the very deployment"
    yield "(engine, precision, layout), not only of the machine. Questions that nothing measured"
    yield "can meet are left out. LLM-Pilot reports 80 % and 19.9 %, on its own data."
    prices = ", ".join(f"{kind} {usd:g}" for kind, usd in told["prices"]["usd_per_device_hour"].items())
    yield f"USD an hour of a device, on demand, as {told['prices']['provider']} lists them (docs/prices.md; the only provider of the list with all): {prices}."
    yield ""
    yield "We choose the least USD ÷ chance^caution. Caution and the width of chances were picked, for each model left out, on the others,"
    yield "each left out in its turn. *Checked* means that before deciding, the load that would be chosen is measured, and the choice made"
    yield f"again with what it tells of the others, so many times at the most; *{SHOTS} measurements* are {SHOTS} rows of the model drawn blindly."
    yield ""
    yield "![Success and overspend of our choices and of rules of thumb](choices/served.svg)"
    yield ""
    yield "| rule | success | overspend | exact | macro success | macro overspend | cheapest machine first | among three |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name in sorted(
        lines, key=lambda one: (not one.startswith("ours"), one != PHYSICS, OURS.index(one) if one in OURS else 9, one)
    ):
        one = lines[name]
        keys = ("success", "overspend", "exact", "macro_success", "macro_overspend", "top_1", "top_3")
        yield _row(name, *(_percent(one[key]) for key in keys))
    yield ""
    yield f"{lines[OURS[0]]['questions']:,} questions about {len(models)} models. Rules below *physics alone* only name a machine, and are given what it"
    yield "was measured to serve: no one who follows them would know how many to buy, so their success is an upper bound."
    yield ""
    yield "| model left out | questions | nothing measured | 1 checked | 2 checked | rule (caution, width) |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for model in models:
        parts = [lines[name]["by_model"][model] for name in OURS[:3]]
        rule = rules[OURS[0]][model]
        yield _row(model, str(parts[0]["questions"]), *(f"{_percent(one['success'])} / {_percent(one['overspend'])}" for one in parts),
                   f"{rule['caution']:g}, {rule['widening']:g}")  # fmt: skip
    yield ""
    yield "What fails without a measurement: a model's time to its first token is off by half as a whole (its engine's prompts, its queue),"
    yield "which one measurement of it tells. Some published sweeps hold times that no estimate foresees, such as seven seconds to the first"
    yield "token under 32 requests where 16 had one; they are in the questions as they are."
    yield ""


def _chances(told: Mapping[str, Any]) -> Iterator[str]:
    yield "## What a promised chance is worth"
    yield ""
    yield "Each load of each model left out, every limit: the chance that was promised, and how often the limit was kept. The chance is Student's t"
    yield "with four degrees of freedom over the logarithm, wide enough to hold the interval's coverage, never beyond 1 and 99 %"
    yield "(`predictor.choosing.chance_below`); two limits together have the geometric mean of the product and the smaller chance:"
    forms = told["forms"]
    yield f"Brier score {forms['both']:.4f}, of the product {forms['product']:.4f}, of the smaller {forms['smaller']:.4f}."
    yield ""
    yield f"| promised | {' | '.join(f'{name}: times | mean promise | kept' for name in told['limits'])} |"
    yield f"| --- |{' --- | --- | --- |' * len(told['limits'])}"
    first = next(iter(told["limits"].values()))["bins"]
    for place, one in enumerate(first):
        cells = [part["bins"][place] for part in told["limits"].values()]
        yield _row(f"{one['from']:.0%} to {one['to']:.0%}",
                   *(text for cell in cells for text in (f"{cell['times']:,}", _percent(cell["promised"]), _percent(cell["kept"]))))  # fmt: skip
    yield ""


def _devices(told: Mapping[str, Any]) -> Iterator[str]:
    yield "## One device among eight or more"
    yield ""
    yield "What the first choice loses beside the best measured one, as a share of the best. MLPerf: items a second of one accelerator, median"
    yield "of valid submissions; we rank by what devices did at other models' work and by their data sheets"
    yield "(`predictor.choosing.strength`). *Everything as it is named* also has systems whose devices nobody can tell apart, and"
    yield "the open division's pruned models on cloud CPUs. Served: under one concurrency; machines by their best deployment."
    yield f"*{POOL[0].upper()}{POOL[1:]}*: {'; '.join(POOLED)}."
    yield ""
    yield "| choices | rule | questions | models | median | 90th percentile | macro mean | best first | among three |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for title, by in told.items():
        for name, one in by.items():
            hits = ("–", "–") if name == "random" else (_percent(one["top_1"]), _percent(one["top_3"]))
            yield _row(title, name, f"{one['questions']:,}", str(one["models"]), _percent(one["median"]), _percent(one["p90"]),
                       _percent(one["macro_mean"]), *hits)  # fmt: skip
    yield ""


def _memory(told: Mapping[str, Any]) -> Iterator[str]:
    yield "## Whether it fits"
    yield ""
    yield "Families left out. timm's benchmark lowers the batch until a model fits, so the batch above a lowered one was tried and did not fit"
    yield "(almost always for memory; a run that fell to one item is left out). A need is known to a quarter or so, and smaller batches are"
    yield "taken to need activations in proportion. First-party peaks come without a failure, so the question is made: does it fit so much?"
    yield ""
    yield "| questions | asked | did not fit | right | macro | said with > 95 % to fit | of those wrong | within 5 and 95 %: right |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for title, one in told.items():
        yield _row(title, f"{one['questions']:,}", f"{one['did_not_fit']:,}", _percent(one["right"]), _percent(one["right_macro"]),
                   f"{one['sure_fits']:,}", f"{one['sure_wrong']:,}", _percent(one["decided_right"]))  # fmt: skip
    yield ""
    if USUAL in told:
        one = told[USUAL]
        yield f"*{USUAL}*: always saying yes is right {_percent(one['always_right'])}, weights and live activations alone {_percent(one['floor_right'])}. Counting on half of the room,"
        yield f"{one['sure_in_half_wrong']:,} of {one['sure_in_half']:,} sure answers are wrong. Next to the edge, where a step is a quarter to a third, nothing here can tell: measure."
        yield ""
    yield "| questions | promised | times | mean promise | did fit |"
    yield "| --- | --- | --- | --- | --- |"
    for title, one in told.items():
        for cell in one["bins"]:
            yield _row(
                title,
                f"{cell['from']:.0%} to {cell['to']:.0%}",
                f"{cell['times']:,}",
                _percent(cell["promised"]),
                _percent(cell["kept"]),
            )
    yield ""


def picture(lines: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return success over overspend of every rule as SVG, with the corner that the bar asks for."""
    import altair as alt

    from presentation.charts import chart_files

    span = alt.Scale(type="log", domain=[0.004, 20])
    height = alt.Scale(domain=[0.4, 1.0], zero=False)
    corner = alt.Chart(alt.Data(values=[{"left": 0.004, "right": BAR_OVERSPEND, "low": BAR_SUCCESS, "high": 1.0}]))
    asked = corner.mark_rect(color="#cfe3cf", opacity=0.6).encode(
        x=alt.X("left:Q", scale=span), x2="right:Q", y=alt.Y("low:Q", scale=height), y2="high:Q"
    )
    across = alt.X("overspend:Q", title="overspend (logarithmic)", scale=span).axis(format="%")
    up = alt.Y("success:Q", title="success rate", scale=height).axis(format="%")
    colour = alt.Color("ours:N", legend=None, scale=alt.Scale(domain=[True, False], range=["#1f5fa8", "#6f6f6f"]))
    layers = asked
    for shown, align, away in (
        ([one for one in _dots(lines) if not one["left"]], "left", 7),
        ([one for one in _dots(lines) if one["left"]], "right", -7),
    ):
        drawn = alt.Chart(alt.Data(values=shown)).encode(x=across, y=up, color=colour)
        layers = (
            layers
            + drawn.mark_circle(size=70)
            + drawn.mark_text(align=align, dx=away, fontSize=10).encode(text="rule:N")
        )
    return chart_files.svg(layers.properties(width=680, height=400))


def _dots(lines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rules that come to the same place share a dot; names stand where they hide no other."""
    found: dict[tuple[float, float], dict[str, Any]] = {}
    for name, one in lines.items():
        if one["overspend"] is None:
            continue
        place = (round(one["overspend"], 3), round(one["success"], 3))
        dot = found.setdefault(
            place, {"overspend": max(place[0], 0.005), "success": place[1], "ours": name.startswith("ours")}
        )
        dot["rule"] = f"{dot['rule']}, {name}" if "rule" in dot else name
    dots = sorted(found.values(), key=lambda dot: float(dot["overspend"]))
    for index, dot in enumerate(dots):
        close = any(abs(dot["success"] - other["success"]) < CLOSE_BY for other in dots[index + 1 :])
        dot["left"] = close and (dot["ours"] or dot["overspend"] > 1)
    return dots


def _met(met: bool) -> str:
    return "yes" if met else "**no**"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"
