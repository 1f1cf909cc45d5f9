"""`assay compress`: variants of a model by recipes, each with its size, speed, memory and price in quality."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.confirming import confirm, confirmed
from assay.cli.measure.destination import destination
from assay.cli.measure.run_context import context_option, run_context
from assay.cli.measure.run_output import progress_bar
from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import UsageError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, QUALITY_MEASURED, TEST_REPORTED
from presentation import formatting

if TYPE_CHECKING:
    from runner.compression.compress import Compressed
    from runner.compression.contract import Compression, Recipe, RecipeOutcome

__all__ = ["VariantRow", "compress", "rows_of"]

ALL, BASE = "all", "base"
NOT_EVALUATED = "not evaluated"


@click.command(
    epilog="""\b
Examples:
  assay compress ./digits-vit --list
  assay compress ./digits-vit --recipe int8-ptq --calibrate training.npz --eval held-out.npz
  assay compress ./digits-vit --recipe all --calibrate training.npz --eval held-out.npz --out variants/
  assay compress ./my-model --recipe prune-70,int8-dynamic --calibrate train.jsonl --eval 'python score.py {model}'
  assay compress ./my-model --recipe int4-weights --no-bench
  assay compress ./my-model --precision bf16,int8 --platform openvino --eval held-out.npz"""
)
@click.argument("model")
@click.option("--recipe", "wanted", type=WORDS, metavar="NAME,…|all", help="Recipes to carry out; --list names them.")
@click.option("--list", "listing", is_flag=True, help="List the recipes for this model, and why one is not for it.")
@click.option(
    "--eval",
    "evaluate",
    metavar="DATA|COMMAND",
    help="Examples with labels (.npz, .jsonl, .csv, .parquet, a folder of images by class), or a command that scores "
    "{model}; without it quality is not evaluated.",
)
@click.option("--calibrate", metavar="DATA", help="Examples to calibrate or train with; never those of --eval.")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the variants; else `variants` in ASSAY_HOME. What is there already is not made again.",
)
@click.option("--platform", "platforms", type=WORDS, help="Platforms to measure on; all that are present by default.")
@click.option(
    "--precision",
    "precisions",
    type=WORDS,
    help="Precisions of the model itself to measure and evaluate too, without or beside recipes.",
)
@click.option("--no-bench", is_flag=True, help="Make the variants, and measure and verify none.")
@click.option("--no-send", is_flag=True, help="Keep the events in DIR/events.ndjson alone; assay post sends them.")
@click.option("--weights", type=click.Choice(["auto", "pretrained", "random"]), default="auto", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Of training.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds of steady measuring of one variant on one platform.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=1800,
    show_default=True,
    metavar="S",
    help="For one recipe, and for one measurement.",
)
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with a checkpoint.")
@click.option("--allow-pickle", is_flag=True, help="Open pickled weights (.bin), which can run code.")
@context_option
@confirmed
@served
@as_json
def compress(
    model: str,
    wanted: list[str] | None,
    listing: bool,
    folder: Path | None,
    no_bench: bool,
    no_send: bool,
    context: str,
    yes: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
    platforms: list[str] | None,
    precisions: list[str] | None,
    **how: Any,
) -> int:
    """Make smaller variants of a model, measure and verify each, and say what it costs in quality.

    With --precision the model itself is measured, verified and evaluated in those precisions, without a variant.

    Each recipe runs in a process of its own; one that fails does not end the others. A variant is a folder that assay bench,
    verify and recommend take as a model. The same command goes on where it was interrupted. Exit code 1 where a recipe,
    a measurement or an evaluation failed.
    """
    from assay.home import find_home
    from domain.vocabulary import precision_named
    from runner.compression.contract import Compression
    from runner.compression.recipes import recipe_named, recipes

    if listing:
        return _list(model, how, as_json=as_json)
    own = tuple(name for name in dict.fromkeys(map(precision_named, precisions or ())) if name != "fp32")
    if not wanted and not own:
        raise UsageError(
            "no recipe and no precision is named.",
            field="recipe",
            remedy="Name recipes, or say all; --list names them. --precision int8 evaluates the model itself.",
        )
    chosen = recipes() if wanted == [ALL] else tuple(recipe_named(name) for name in dict.fromkeys(wanted or ()))
    home = find_home()
    compression = Compression(
        model=model,
        recipes=chosen,
        out=folder or home.path / "variants",
        platforms=tuple(platforms) if platforms else None,
        precisions=own,
        measure=not no_bench,
        **how,
    )
    if wanted == [ALL] and sys.stdin.isatty() and not as_json:
        confirm(f"{len(chosen)} recipes, some of which train the model.", yes=yes)
    target = None if no_send else (server, token)
    result = _carried_out(compression, target, home.cache, run_context(context))
    return _report(compression, result, as_json=as_json)


def _carried_out(compression: Compression, target: Any, cache: Path, context: Any) -> Compressed:
    from runner.compression.compress import compress as carry_out

    with _destination(target) as deliver, _shown() as (step, made, show):
        return carry_out(compression, deliver, step, show, made, cache=cache, context=context)


@contextmanager
def _destination(target: tuple[str | None, str | None] | None) -> Iterator[Any]:
    if target is None:
        yield lambda _: None
        return
    with destination(None, False, *target) as deliver:
        yield deliver


@contextmanager
def _shown() -> Iterator[tuple[Any, Any, Any]]:
    """Show what a recipe does in a bar in a terminal, and a line for each that is done; then the measurements."""
    console = notes()
    with progress_bar(console) as move:

        def step(recipe: str, what: str, share: float | None) -> None:
            done = None if share is None else round(100 * share)
            move(description=f"{recipe}: {what}", total=None if done is None else 100, completed=done or 0, left=None)

        def made(outcome: RecipeOutcome) -> None:
            console.print(_made(outcome), highlight=False, markup=False)

        def show(progress_: Any) -> None:
            if progress_.outcome:
                case = progress_.case
                name = case.model.rstrip("/").rpartition("/")[2]
                line = (
                    f"[{progress_.done}/{progress_.total}] {name} {case.platform} {case.precision}: {progress_.outcome}"
                )
                console.print(line, highlight=False, markup=False)
            elif progress_.case:
                described = f"{progress_.case.platform}: {progress_.stage or ''}"
                move(description=described, total=progress_.total, completed=progress_.done, left=progress_.left_s)

        yield step, made, show


def _made(outcome: RecipeOutcome) -> str:
    if outcome.failed:
        return f"{outcome.recipe}: {outcome.failed.outcome}: {outcome.failed.message}"
    return f"{outcome.recipe}: {'is there already' if outcome.reused else 'made'}, {outcome.folder}"


def _list(model: str, how: dict[str, Any], *, as_json: bool) -> int:
    from runner.compression.compress import offered
    from runner.compression.recipes import recipes
    from runner.models.sources import resolve

    allowed = {name: how[name] for name in ("trust_remote_code", "allow_pickle")}
    source = resolve(model, how["weights"], **allowed)
    refused = {recipe.name: offered(recipe, source) for recipe in recipes()}
    if as_json:
        print_json([_described(recipe, refused[recipe.name]) for recipe in recipes()])
        return 0
    rows = []
    for recipe in recipes():
        why = refused[recipe.name]
        what = recipe.title if why is None else f"not here: {why.message} {why.remedy or ''}".strip()
        rows.append([recipe.name, recipe.precision, ", ".join(recipe.forms), recipe.needs or "", what])
    columns: list[str | tuple[str, str]] = [
        ("recipe", "fixed"),
        ("precision", "fixed"),
        "forms",
        "needs",
        "what it does",
    ]
    answers().print(grid(f"Recipes for {source.id} ({source.family})", columns, rows))
    return 0


def _described(recipe: Recipe, failed: Any) -> dict[str, Any]:
    plain = {name: getattr(recipe, name) for name in ("name", "title", "precision", "forms", "needs")}
    return {**plain, "refused": None if failed is None else {"why": failed.message, "remedy": failed.remedy}}


class VariantRow(msgspec.Struct, frozen=True, kw_only=True):
    """The base or a variant on one platform: sizes in bytes, the median of one call in ms, and the cost with its interval.

    `size_share` and `latency_ratio` are those of the base, on the same platform. `quality` is None where nothing was evaluated.
    """

    variant: str
    model: str
    platform: str | None = None
    precision: str | None = None
    bytes: int | None = None
    size_share: float | None = None
    latency_ms: float | None = None
    latency_ratio: float | None = None
    peak_memory_bytes: int | None = None
    quality: dict[str, Any] | None = None
    verified: str | None = None
    failed: str | None = None


def rows_of(result: Compressed) -> list[VariantRow]:
    """Return the base and then each recipe in order, one row a platform; a recipe that failed is a row with its reason."""
    base = _rows(result, BASE, result.base, None)
    medians = {row.platform: row.latency_ms for row in base if row.latency_ms and row.precision == "fp32"}
    rows = [_against(row, medians) if row.precision != "fp32" else row for row in base]
    for outcome in result.made:
        if outcome.variant is None:
            assert outcome.failed is not None
            reason = " ".join(filter(None, (outcome.failed.message, outcome.failed.remedy)))
            rows.append(VariantRow(variant=outcome.recipe, model=result.base, failed=reason))
            continue
        name = outcome.variant.id.rpartition("+")[2]
        own = _rows(result, name, outcome.variant.id, outcome)
        rows += [_against(row, medians) for row in own]
    return rows


def _against(row: VariantRow, medians: Mapping[str | None, float]) -> VariantRow:
    """Return the row with its latency over that of the base in fp32 on its platform."""
    return msgspec.structs.replace(row, latency_ratio=_ratio(row.latency_ms, medians.get(row.platform)))


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value and base else None


def _rows(result: Compressed, name: str, model: str, outcome: RecipeOutcome | None) -> list[VariantRow]:
    events = [event for event in result.events if (event["data"].get("model") or {}).get("id") == model]
    # A variant has one precision on a platform, the base those that were asked for.
    places: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        if event["type"] in (MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED, QUALITY_MEASURED):
            platform, precision = _place(event["data"])
            key = platform, "" if outcome else precision
            places.setdefault(key, {})[event["type"]] = event["data"]
    size = next((each.variant.base_bytes for each in result.made if each.variant), None)
    judged = [facts[QUALITY_MEASURED] for facts in places.values() if QUALITY_MEASURED in facts]
    # A command judges a variant once, on no platform that is known.
    places.pop(("other", ""), None)
    rows = [
        _row(name, model, platform, precision, facts, outcome, size, judged)
        for (platform, precision), facts in places.items()
    ]
    if not rows:
        form = outcome.variant.forms[0] if outcome and outcome.variant else None
        own = form.bytes if form else size
        share = _ratio(own, size)
        stated = form.precision if form else None
        quality = judged[0] if judged else None
        rows = [VariantRow(variant=name, model=model, precision=stated, bytes=own, size_share=share, quality=quality)]
    return rows


def _place(data: dict[str, Any]) -> tuple[str, str]:
    """Return platform and precision as they were asked for, also where another did the work."""
    from domain.vocabulary import asked_name

    execution = data["execution"]
    request = (data.get("observed") or {}).get("requested") or execution
    platform = asked_name(request["platform"], (execution.get("runtime") or {}).get("name") or "")
    return platform, request.get("precision") or ""


def _row(
    name: str,
    model: str,
    platform: str,
    precision: str,
    facts: dict[str, Any],
    outcome: RecipeOutcome | None,
    size: int | None,
    judged: Sequence[dict[str, Any]],
) -> VariantRow:
    measured, failure = facts.get(MEASUREMENT_RECORDED), facts.get(MEASUREMENT_FAILED)
    own = _bytes_on(outcome, platform) if outcome else size
    # A command judges the variant once, whatever platform it is measured on.
    quality = facts.get(QUALITY_MEASURED) or next(
        (row for row in judged if row["execution"]["platform"] == "other"), None
    )
    metrics = measured["metrics"] if measured else {}
    return VariantRow(
        variant=name,
        model=model,
        platform=platform,
        precision=measured["execution"]["precision"] if measured else precision or None,
        bytes=own,
        size_share=_ratio(own, size),
        latency_ms=(metrics.get("latency_ms") or {}).get("p50"),
        peak_memory_bytes=metrics.get("peak_memory_bytes"),
        quality=quality,
        verified=_verified(facts.get(TEST_REPORTED)),
        failed=failure["failure"]["message"] if failure and not measured else None,
    )


def _verified(test: dict[str, Any] | None) -> str | None:
    if test is None:
        return None
    return (
        "passed"
        if test["outcome"] == "passed"
        else f"{test['outcome']}: {(test.get('failure') or {}).get('message', '')}"
    )


def _bytes_on(outcome: RecipeOutcome, platform: str) -> int | None:
    """Return the size of the form that a platform takes."""
    from runner.platforms.registry import create

    assert outcome.variant is not None
    forms = (outcome.variant.form_for(kind) for kind in create(platform).forms)
    return next((form.bytes for form in forms if form), None)


def _report(compression: Compression, result: Compressed, *, as_json: bool) -> int:
    from runner.compression.contract import EVENTS

    rows = rows_of(result)
    bad = [row for row in rows if row.failed or (row.verified or "passed") != "passed"]
    if as_json:
        print_json({"model": result.base, "rows": rows, "variants": _variants(result), "unjudged": result.unjudged})
        return 1 if bad or result.unjudged else 0
    answers().print(_table(rows))
    for line in _reasons(rows):
        answers().print(line, markup=False, highlight=False)
    for problem in result.unjudged:
        say(f"not evaluated: {problem}")
    if compression.evaluate is None:
        say("quality is not evaluated: give examples or a command with --eval")
    say(f"the variants and {EVENTS} lie in {compression.out}; measure one again: assay bench FOLDER")
    return 1 if bad or result.unjudged else 0


def _variants(result: Compressed) -> list[dict[str, Any]]:
    return [
        {"id": each.variant.id, "recipe": each.recipe, "folder": str(each.folder), "reused": each.reused}
        for each in result.made
        if each.variant
    ]


def _reasons(rows: Sequence[VariantRow]) -> Iterator[str]:
    """Yield what the table has no room for: why something was not made or measured, and which outputs differ."""
    for row in rows:
        where = f"{row.variant} on {row.platform}" if row.platform else row.variant
        if row.failed:
            yield f"{where}: {row.failed}"
        elif row.verified and row.verified != "passed":
            yield f"{where}: its outputs differ from the reference's; {row.verified}"


def _table(rows: Sequence[VariantRow]) -> Any:
    judged = next((row.quality for row in rows if row.quality), None)
    lost = f"{judged['metric']} lost, {judged.get('unit', 'pt')}" if judged else "quality lost"
    columns: list[str | tuple[str, str]] = [
        ("variant", "fixed"),
        ("platform", "fixed"),
        ("prec", "fixed"),
        ("on disk", "right"),
        ("p50", "right"),
        ("×base", "right"),
        ("memory", "right"),
        (lost, "fixed"),
    ]
    cells = [
        [
            row.variant,
            row.platform or formatting.MISSING,
            row.precision or formatting.MISSING,
            _size(row),
            formatting.latency(row.latency_ms) if row.latency_ms else formatting.MISSING,
            f"{row.latency_ratio:.2f}" if row.latency_ratio else formatting.MISSING,
            formatting.memory(row.peak_memory_bytes) if row.peak_memory_bytes else formatting.MISSING,
            _cost(row),
        ]
        for row in rows
    ]
    return grid(None, columns, cells)


def _size(row: VariantRow) -> str:
    if row.bytes is None:
        return formatting.MISSING
    share = f" {row.size_share:.0%}" if row.size_share is not None else ""
    return formatting.memory(row.bytes) + share


def _cost(row: VariantRow) -> str:
    """Return the loss with its interval, `-0.2 [-0.9, +0.5]`; a distance of outputs is never one."""
    if row.quality:
        low, high = row.quality["interval"]
        return f"{row.quality['loss']:+.1f} [{low:+.1f}, {high:+.1f}]"
    if row.failed:
        return "not measured" if row.platform else "not made"
    return "" if row.variant == BASE and row.precision in (None, "fp32") else NOT_EVALUATED
