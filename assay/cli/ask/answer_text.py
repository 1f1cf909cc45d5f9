"""Answers in words: what is recommended, why it stands first, what was left out, what would do, what to measure next."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape
from rich.padding import Padding

from assay.cli.ask.ranked_table import NOT_COVERED, SEEN, ranked_table
from assay.cli.output import answers, fitted
from assay.cli.tables import at_hand_table, excluded_table, would_do_table
from domain.answers import Call, HourPrice, Met, Recommendation
from presentation import formatting
from presentation.answer_words import pick_words, short_name
from presentation.call_rates import call_line
from presentation.variant_words import variant_line

__all__ = ["tell_answer"]


def tell_answer(answer: Recommendation, top: int | None = None, *, verbose: bool = False) -> None:
    """Print an answer as people read it: the picks, then a line a device; `verbose` adds what each line rests on."""
    console = answers()
    if answer.abstained:
        console.print(f"No recommendation: {answer.abstained}", markup=False, soft_wrap=False)
    if answer.ranked:
        _print_picks(answer)
        _tell_ranked(answer, top)
        if verbose:
            _tell_reasons(answer, top)
    in_full = verbose or not answer.ranked
    for table in (at_hand_table(answer), would_do_table(answer), excluded_table(answer) if in_full else None):
        if table is not None:
            console.print()
            console.print(table)
    if not in_full:
        console.print(f"[dim]{escape(_left_out(answer))}[/dim]")
    for note in answer.notes:
        console.print(f"[dim]note: {escape(note)}[/dim]")
    if answer.suggestions:
        console.print()
        console.print("[bold]What to measure next[/bold]")
        for suggestion in answer.suggestions[:3]:
            console.print(f"  {suggestion.command}", markup=False, soft_wrap=True)
            console.print(Padding(f"[dim]{escape(suggestion.why)}[/dim]", (0, 0, 0, 4), expand=False))


def _print_picks(answer: Recommendation) -> None:
    """Print the picks, a line each; of an answer that recommends nothing there are none to print."""
    if answer.abstained or not answer.picks:
        return
    words = [(pick_words(pick, answer), pick.option) for pick in answer.picks]
    columns = [
        ("pick", "fixed", [row.title for row, _ in words]),
        ("device", "fixed", [short_name(option.hardware, option.hardware_count) for _, option in words]),
        ("figure", "fixed", [row.figure for row, _ in words]),
        ("runs", "fixed", [row.runs for row, _ in words]),
        ("evidence", "fixed", [row.evidence for row, _ in words]),
        ("confidence", "fixed", [row.confidence for row, _ in words]),
    ]
    table = fitted(None, [column for column in columns if any(column[2])], ("runs", "evidence"))
    table.show_header = False
    answers().print(table)
    answers().print()


def _tell_ranked(answer: Recommendation, top: int | None) -> None:
    console, shown = answers(), answer.ranked[:top]
    console.print(ranked_table(answer, top))
    _tell_call(answer.call)
    if any(row.basis == "measured" for row in shown):
        console.print("[dim]measured rows: the 95 % interval of the median[/dim]")
    if any(row.interval_covered is False and row.basis not in SEEN for row in shown):
        console.print(f"[dim]{NOT_COVERED} no measurement has checked its interval[/dim]")
    if any(row.tied_with for row in shown):
        console.print("[dim]= too close to call with the one above it[/dim]")
    if any(row.basis == "roofline" for row in shown):
        console.print("[dim]specs only: an estimate from the data sheet, by its unfavourable end[/dim]")
    lines: dict[str, str] = {}
    for row in shown:
        if row.variant is not None and (line := variant_line(row)):
            lines.setdefault(row.variant.model, line)
    for line in lines.values():
        console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)


def _tell_reasons(answer: Recommendation, top: int | None) -> None:
    """Print why the first three stand where they do, on what the first rests, and what nothing beats."""
    console, shown = answers(), answer.ranked[:top]
    console.print()
    for place, row in enumerate(shown[:3]):
        text = "as above" if place and row.why == shown[place - 1].why else row.why
        console.print(f"{row.rank}. {text}", markup=False)
        if row.why_above_next:
            console.print(f"   [dim]{escape(row.why_above_next)}[/dim]")
        if row.price:
            console.print(f"   [dim]{escape(_price(row.price))}[/dim]")
        for met in row.meets or ():
            if not met.exact:
                console.print(f"   [dim]{escape(_met(met))}[/dim]")
    best = shown[0]
    if best.evidence:
        listed = ", ".join(best.evidence[:3])
        console.print(f"[dim]evidence of rank 1: {listed}{' …' if len(best.evidence) > 3 else ''}[/dim]")
    if answer.front and answer.front.options and answer.met > len(shown):
        axes = " and ".join(answer.front.axes)
        ranks = ", ".join(str(option.rank) for option in answer.front.options[:12])
        console.print(f"[dim]{answer.met} meet what is asked; nothing beats ranks {ranks} in both {axes}[/dim]")


def _left_out(answer: Recommendation) -> str:
    """Say in a line how much was left out and by which rules, and where the rest is."""
    counted = Counter(str(row.rule) for row in answer.excluded).most_common()
    rules = ", ".join(f"{count} {rule}" for rule, count in counted)
    more = "--verbose says why each stands where it does"
    return f"left out: {rules}; {more}" if rules else more


def _tell_call(call: Call | None) -> None:
    """Say what one call is, and what was assumed of it."""
    if line := call_line(call):
        answers().print(f"[dim]{escape(line)}[/dim]")
    if call is not None and call.assumed:
        answers().print(f"[dim]assumed: {escape(call.assumed)}[/dim]")


def _price(price: HourPrice) -> str:
    """Where that price is from and how old it is."""
    machines = f"{price.machines} × " if price.machines > 1 else ""
    name = f"{price.provider} {price.instance or ''}".rstrip()
    where = f" in {price.region}" if price.region else ""
    dated = f"as of {price.date}{', stale: check it' if price.stale else ''}" if price.date else "undated: check it"
    spot = " spot" if price.spot else ""
    return f"{machines}{name}{where}, {formatting.money(price.usd_per_hour_each)}/h{spot}, {dated}"


def _met(met: Met) -> str:
    chance = met.probability
    sure = "nobody knows how likely" if chance is None else f"met with a probability of {formatting.share(chance)}"
    return f"{met.constraint} {met.limit:g}: {sure}"
