"""`assay model`: what each model is, where it was tried and where never, and new names for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich_click as click
from rich.text import Text

from assay.cli.ask.rooflines import operators
from assay.cli.keep.aliasing import aliasing, declare
from assay.cli.measure.tracing import trace_models
from assay.cli.options import AS_OF, WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.answers.variants import VariantRow
from domain.vocabulary import CATEGORIES
from presentation import formatting

__all__ = ["model"]

Row = Mapping[str, Any]
STATE_STYLES = {"verified": "green", "measured": "", "failed": "red", "missing": "dim"}


@click.group(
    epilog="Examples: assay model list --category vision · assay model show bert-base-uncased · assay model coverage"
)
def model() -> None:
    """Models by id: what each is, where it was tried and where never, and aliases."""


@model.command(
    "list",
    epilog="""\b
Examples:
  assay model list --category vision
  assay model list --search wisper          # a name that is mistyped is found
  assay model list --known --search resnet  # what the log knows as well""",
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Models of one category only.")
@click.option("--search", metavar="TEXT", help="Part of a name or alias; two letters may be wrong.")
@click.option("--known", is_flag=True, help="Also what the log tells of: asks the service.")
@served
@as_json
def list_models(
    category: str | None, search: str | None, known: bool, server: str | None, token: str | None, as_json: bool
) -> int:
    """List the catalogue, or with --known every model that was ever heard of."""
    rows = _known(category, search, server, token) if known else _catalogued(category, search)
    if as_json:
        print_json(rows)
        return 0
    if not rows:
        say("no model fits; `assay model list` names those of the catalogue")
        return 1
    heads: list[str | tuple[str, str]] = ["model", "family", "category", ("parameters", "right")]
    heads += [("measured", "right"), ("tests", "right")] if known else ["licence", "also called"]
    count = f"{len(rows)} model{'' if len(rows) == 1 else 's'}"
    answers().print(grid(count, heads, [_listed(row, is_known=known) for row in rows]))
    return 0


@model.command(
    "show",
    epilog="""\b
Examples:
  assay model show whisper-small
  assay model show ./my-checkpoint      # what a folder's config.json says it is
  assay model show gpt2 --as-of 184203""",
)
@click.argument("name")
@click.option("--as-of", type=AS_OF, help="As it was known at a position of the log, or at a snapshot.")
@served
@as_json
def show_model(name: str, as_of: int | str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Show one: what it is and why, its sizes, where it was tried, where it is fastest, and what stands beside it."""
    from assay.cli.connection import reading

    folder = Path(name).expanduser()
    if folder.is_dir() or folder.name == "config.json" or name.startswith((".", "/", "~")):
        return _show_folder(folder, as_json=as_json)
    with reading(server, token) as client:
        model = client.model(name, as_of=as_of)
        variants = [] if as_json else client.variants(model["model"]["id"], as_of=as_of).items
    if as_json:
        print_json(model)
        return 0
    for part in (*_shown(model), *_variants(variants)):
        answers().print(part)
    return 0


@model.command(
    "coverage",
    epilog="""\b
Examples:
  assay model coverage --category vision
  assay model coverage --platform cpu,openvino""",
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Families of one category only.")
@click.option("--family", metavar="F", help="One family only.")
@click.option("--platform", "platforms", type=WORDS, help="These platforms only.")
@click.option("--as-of", type=AS_OF, help="As it was known at a position of the log, or at a snapshot.")
@served
@as_json
def show_coverage(
    category: str | None,
    family: str | None,
    platforms: list[str] | None,
    as_of: int | str | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Show family × platform: which share of the models was tried, what never, and the commands that would fill the gaps."""
    from assay.cli.connection import reading

    wanted = ",".join(platforms) if platforms else None
    with reading(server, token) as client:
        coverage = client.coverage(category=category, family=family, platform=wanted, as_of=as_of)
    if as_json:
        print_json(coverage)
        return 0
    if not coverage["items"]:
        say("no model is known of that category and family; `assay model list --known` names those that are")
        return 1
    for part in _covered(coverage["items"], coverage["gaps"]):
        answers().print(part, soft_wrap=isinstance(part, str), markup=False)
    return 0


@model.command(
    "alias",
    epilog="Examples: assay model alias my-bert google-bert/bert-base-uncased · assay model alias --file names.yaml",
)
@aliasing
def alias_model(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return declare("model", **said)


def _catalogued(category: str | None, search: str | None) -> list[Row]:
    import msgspec

    from domain.catalogues.models import catalogue
    from domain.catalogues.search import matches

    entries = {entry.id: entry for entry in catalogue() if category in (None, entry.category)}
    if search is not None:
        result = matches(search, {name: entry.aliases for name, entry in entries.items()})
        entries = {match.id: entries[match.id] for match in result}
    rows: list[Row] = [msgspec.to_builtins(entry) for entry in entries.values()]
    return [{key: value for key, value in row.items() if key != "config"} for row in rows]


def _known(category: str | None, search: str | None, server: str | None, token: str | None) -> list[Row]:
    from assay.cli.connection import reading

    with reading(server, token) as client:
        return list(client.models(category=category, search=search))


def _listed(row: Row, *, is_known: bool) -> list[str]:
    cells = [row["id"], row["family"] or formatting.MISSING, row["category"] or formatting.MISSING, _parameters(row)]
    if is_known:
        return [*cells, formatting.count(row["measurements"]), formatting.count(row["tests"])]
    return [*cells, row["licence"] or "", ", ".join(row["aliases"][:2])]


def _show_folder(folder: Path, *, as_json: bool) -> int:
    import json

    from domain.catalogues.classification import classified
    from domain.errors import UsageError

    path = folder if folder.name == "config.json" else folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as JSON: {error}.", field="name", remedy="Give a folder that save_pretrained wrote."
        ) from error
    document = classified(config if isinstance(config, dict) else {})
    if as_json:
        print_json({**_told(document), "config": config})
        return 0
    answers().print(_facts(str(folder), [(key, str(value or "not known")) for key, value in _told(document).items()]))
    return 0


def _told(document: Any) -> dict[str, Any]:
    return {key: getattr(document, key) for key in ("family", "category", "task", "why")}


def _shown(document: Row) -> list[Any]:
    """Return the parts of the answer about one model, in the order in which they are read."""
    row = document["model"]
    parts: list[Any] = [_facts(row["id"], _identity(row, document["sizes"]))]
    heads: list[str | tuple[str, str]]
    if document["platforms"]:
        heads = [("platform", "fixed"), ("precision", "fixed"), ("state", "fixed"), ("runs", "right"), "on", "why not"]
        parts += _part("Tried", heads, [_tried(platform) for platform in document["platforms"]])
        parts += [Text(line) for line in _untried(document)]
    else:
        parts.append(Text(f"\nIt was never tried anywhere: assay verify {row['id']}"))
    if document["best"]:
        work = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in document["best"][0]["work"].items())
        heads = ["hardware", ("platform", "fixed"), ("precision", "fixed"), ("batch", "right")]
        heads += [(document["best"][0]["unit"], "right"), ("latency", "right"), "origin"]
        parts += _part(f"Fastest, as measured ({work})", heads, [_fastest(item) for item in document["best"]])
    if document["siblings"]:
        heads = ["model", "family", ("parameters", "right"), ("operators alike", "right"), ("measured", "right")]
        parts += _part("Nearest siblings", heads, [_sibling(item) for item in document["siblings"]])
    if document["alternatives"]:
        first = document["alternatives"][0]
        of = "" if first["same_task"] else f" ({first['task']}: they would have to be trained for its task)"
        heads = ["model", ("parameters", "right"), ("FLOPs", "right"), ("licence", "fixed"), ("measured", "right")]
        rows = [_alternative(alternative) for alternative in document["alternatives"]]
        parts += _part(f"Smaller open alternatives{of}", heads, rows)
        parts.append(Text(document["quality"]))
    return parts


def _variants(rows: Sequence[VariantRow]) -> list[Any]:
    """Return the model and its variants side by side; nothing where there are none."""
    if not any(row.recipe for row in rows):
        return []
    from presentation.variant_words import variants_table

    left = ("Variant", "Platform", "Precision", "Quality loss")
    columns = (*left[:3], "Latency", "Speed", "Size on disk", left[3])
    heads: list[str | tuple[str, str]] = [head.lower() if head in left else (head.lower(), "right") for head in columns]
    cells = [
        [line[column].partition(" (")[0] if column == "Latency" else line[column] for column in columns]
        for line in variants_table(rows)
    ]
    return _part("Variants", heads, cells)


def _untried(row: Row) -> list[str]:
    """Say which precisions were not tried where the model was tried, and on which platforms it never was."""
    by_platform: dict[str, list[str]] = {}
    for item in row["missing"]:
        by_platform.setdefault(item["platform"], []).append(item["precision"])
    there = "; ".join(f"{platform} in {', '.join(precisions)}" for platform, precisions in by_platform.items())
    lines = [f"Not tried, as other models were: {there}."] if there else []
    return lines + ([f"Never tried on {', '.join(row['never_tried'])}."] if row["never_tried"] else [])


def _part(title: str, heads: Sequence[str | tuple[str, str]], rows: Sequence[Sequence[str | Text]]) -> list[Any]:
    """A table under a line of its own: a table's title would wrap at the table's width."""
    return [Text(f"\n{title}", style="bold"), grid(None, heads, rows)]


def _identity(row: Row, sizes: Row) -> list[tuple[str, str]]:
    what = ", ".join(filter(None, (row["category"], row["task"])))
    measured = ", ".join(f"{kind} ones ({formatting.count(n)} rows)" for kind, n in row["weights_measured"].items())
    weights = row["weights"] + (f"; {row['licence']}" if row["licence"] else "; licence not known")
    facts = [
        ("also called", ", ".join(row["aliases"]) or "nothing else"),
        ("family", f"{row['family'] or 'not known'}{f' ({what})' if what else ''}: {row['family_why']}"),
        ("parameters", _parameters(row) + (f" — {row['parameters_source']}" if row["parameters_source"] else "")),
        ("one item", _work(sizes)),
        ("weights", weights + (f"; measured with {measured}" if measured else "")),
        ("revisions", ", ".join(row["revisions"])),
        ("architecture", formatting.digest(row["architecture"], 12) if row["architecture"] else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _work(sizes: Row) -> str:
    """Say what one item takes, from the trace or a served model's published sizes."""
    if sizes.get("flops"):
        at = ", ".join(f"{key} {value}" for key, value in sizes["at"].items())
        calls = (
            f"{formatting.significant(sizes['flops'] / 1e9)} GFLOP in {formatting.count(sizes['operators'])} operators"
        )
        return f"{calls} ({at})" if at else calls
    if sizes.get("layers"):
        active = f"{formatting.significant(sizes['active_parameters'] / 1e9)} billion parameters work on each token"
        return f"{active}; {sizes['layers']} layers of width {sizes['hidden_size']}"
    return "not traced: `assay predict` traces it where torch is installed"


def _parameters(row: Row) -> str:
    if row["parameters"]:
        return formatting.count(row["parameters"])
    about = row.get("parameters_about")
    return f"about {_about(about)}" if about else formatting.MISSING


def _tried(row: Row) -> list[str | Text]:
    return [
        row["platform"],
        row["precision"] or "not said",
        Text(row["state"], style=STATE_STYLES[row["state"]]),
        formatting.count(row["measurements"]),
        ", ".join(row["hardware"][:3]) + (" …" if len(row["hardware"]) > 3 else ""),
        row["why_not"] or "",
    ]


def _fastest(row: Row) -> list[str]:
    count = f"{row['hardware_count']} × " if (row["hardware_count"] or 1) > 1 else ""
    return [
        count + row["hardware"],
        row["platform"],
        row["precision"] or "not said",
        formatting.count(row["batch_size"]),
        formatting.significant(row["throughput"]),
        formatting.latency(row["latency_ms"]),
        row["origin"],
    ]


def _sibling(row: Row) -> list[str]:
    alike = "the same" if row["same_operators"] else formatting.share(row["op_mix_cosine"])
    return [row["id"], row["family"] or formatting.MISSING, _sized(row), alike, formatting.count(row["measurements"])]


def _alternative(row: Row) -> list[str]:
    return [
        row["id"],
        _sized(row),
        formatting.share(row["flops_ratio"]),
        row["licence"] or "not known",
        formatting.count(row["measurements"]),
    ]


def _sized(row: Row) -> str:
    """A size beside the model's own: as a share below it, as a multiple above."""
    ratio = row["parameters_ratio"]
    if ratio is None:
        return _about(row["parameters"])
    beside = f"{ratio:.0%}".replace("%", " %") if ratio < 1.5 else formatting.factor(ratio)
    return f"{_about(row['parameters'])} ({beside})"


def _about(value: float | None) -> str:
    """Write a number of parameters in three digits: `110 M`, `7.06 G`."""
    if value is None:
        return formatting.MISSING
    size, unit = next(((size, unit) for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= size), (1, ""))
    return f"{formatting.significant(value / size)} {unit}".strip()


def _covered(rows: Sequence[Row], gaps: Sequence[Row]) -> list[Any]:
    """Return the table of what was tried, what never was, and the commands."""
    platforms = list(dict.fromkeys(row["platform"] for row in rows))
    tried = [platform for platform in platforms if any(row["tried"] for row in rows if row["platform"] == platform)]
    by_family: dict[tuple[Any, Any], dict[str, Row]] = {}
    for row in rows:
        by_family.setdefault((row["category"], row["family"]), {})[row["platform"]] = row
    never = [platform for platform in platforms if platform not in tried]
    seen = {key: cells for key, cells in by_family.items() if any(cell["tried"] for cell in cells.values())}
    untried = [family or "not known" for category, family in by_family if (category, family) not in seen]
    parts: list[Any] = []
    if seen:
        heads: list[str | tuple[str, str]] = [
            "category",
            "family",
            ("models", "right"),
            *((item, "right") for item in tried),
        ]
        lines = [
            [
                category or "not known",
                family or "not known",
                formatting.count(max(cell["models"] for cell in cells.values())),
            ]
            + [_cell(cells[item]) for item in tried]
            for (category, family), cells in seen.items()
        ]
        parts = _part("Share of each family's models that was tried; ! where one or more failed", heads, lines)
    if untried:
        parts.append(Text(f"\nOf these families no model was tried ({len(untried)}): {', '.join(untried)}."))
    if never:
        parts.append(Text(f"On these platforms nothing was tried: {', '.join(never)}."))
    if gaps:
        parts.append(Text("\nWhat would begin to fill the largest gaps", style="bold"))
        parts += [line for gap in gaps for line in _gap(gap)]
    if isinstance(parts[0], Text):
        parts[0].plain = parts[0].plain.lstrip()
    return parts


def _cell(cell: Row) -> str:
    if not cell["tried"]:
        return formatting.MISSING
    share = "all" if cell["tried"] == cell["models"] else f"{cell['tried_share']:.0%}".replace("%", " %")
    return share + ("!" if cell["failed"] else "")


def _gap(gap: Row) -> list[str]:
    what = f"{gap['never_tried']} of {gap['families']} {gap['category']} families on {gap['platform']}"
    return [what + ("" if gap["at_hand"] else ", for which the log knows no machine of yours"), f"  {gap['command']}"]


def _facts(title: str, facts: Sequence[tuple[str, str]]) -> Any:
    result = grid(title, [("", "fixed"), ""], facts)
    result.show_header = False
    return result


model.add_command(operators)
model.add_command(trace_models)
