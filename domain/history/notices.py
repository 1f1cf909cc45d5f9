"""Messages about alerts: what a webhook, Slack and a mail say of one alert, or of many in one digest."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from domain.history.alerts import Alert
from domain.history.history import Cause, Change

__all__ = [
    "MOST_CHANGES",
    "ChangeNotice",
    "Message",
    "MessageData",
    "Notice",
    "compose",
    "mail_of",
    "notice_of",
    "slack_of",
    "trial_message",
]

MOST_CHANGES = 100
"""Changes that one message lists; it counts the rest."""
_SLACK_CHANGES = 20
_SLACK_SECTION = 2_900
"""Slack takes 3,000 letters a section, 150 a header and 50 blocks."""
_SLACK_HEADER = 148
_LONGEST = 200


class ChangeNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message says of a change; see domain.history.Change."""

    id: str
    model: str
    hardware: str
    platform: str
    precision: str | None
    metric: str
    unit: str
    kind: Literal["step", "drift", "functional"]
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    first: str
    last: str
    batch_size: int | None = None
    versions: tuple[str | None, str | None] = (None, None)
    commits: tuple[str | None, str | None] = (None, None)


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message says of an alert; `more` counts the changes that it does not list."""

    alert: str
    event_id: str
    title: str
    direction: Literal["worse", "better"]
    kind: Literal["performance", "functional"]
    state: str
    changes: list[ChangeNotice]
    more: int = 0
    owners: list[str] = []
    cause: Cause | None = None
    author: str | None = None
    reason: str | None = None


class MessageData(msgspec.Struct, frozen=True, kw_only=True):
    """The alerts of a message, the largest changes first; `more` counts the alerts that it does not list, `states` has all.

    `link` is the address of the service, where the routes file has one.
    """

    route: str
    alerts: list[Notice]
    more: int = 0
    states: dict[str, int] = {}
    link: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `type` is `alert.STATE` for one alert, `alert.digest` for several."""

    type: str
    timestamp: datetime
    data: MessageData


def notice_of(alert: Alert, event_id: str, changes: Sequence[Change]) -> Notice:
    """Return what is said of an alert in its state, with those of its changes that the route is about."""
    last = alert.states[-1] if alert.states else None
    return Notice(
        alert=alert.id,
        event_id=event_id,
        title=_line(alert.title) or f"alert {alert.id}",
        direction=alert.direction,
        kind=alert.kind,
        state=alert.state,
        changes=[_change(change) for change in changes[:MOST_CHANGES]],
        more=max(0, len(changes) - MOST_CHANGES),
        owners=alert.owners,
        cause=_cause(alert.cause) if alert.cause is not None else None,
        author=_line(last.author) if last is not None else None,
        reason=_line(last.reason) if last is not None and last.reason else None,
    )


def _change(change: Change) -> ChangeNotice:
    return ChangeNotice(**{name: _storable(getattr(change, name)) for name in ChangeNotice.__struct_fields__})


def _storable(value: Any) -> Any:
    """Return a value that JSON in Postgres takes: finite, and without NUL."""
    if isinstance(value, tuple):
        return tuple(_storable(each) for each in value)
    if isinstance(value, float):
        return value if math.isfinite(value) else 0.0
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


def _cause(cause: Cause) -> Cause:
    values = [_line(each) if each is not None else None for each in (cause.before, cause.after)]
    return Cause(part=_line(cause.part), before=values[0], after=values[1])


def compose(notices: Sequence[Notice], route: str, time: datetime, link: str | None = None) -> Message:
    """Return one message about alerts, the largest changes first and at most MOST_CHANGES of them."""
    ordered = sorted(notices, key=_largest, reverse=True)
    single = len(ordered) == 1
    listed = ordered if single else [_shortened(notice) for notice in ordered[:MOST_CHANGES]]
    return Message(
        type=f"alert.{ordered[0].state if single else 'digest'}",
        timestamp=time,
        data=MessageData(
            route=route,
            alerts=listed,
            more=len(ordered) - len(listed),
            states=dict(Counter(notice.state for notice in ordered)),
            link=link,
        ),
    )


def _largest(notice: Notice) -> float:
    return max((abs(change.change) for change in notice.changes), default=0.0)


def _shortened(notice: Notice) -> Notice:
    """Return a notice for a digest, with its first change alone."""
    return msgspec.structs.replace(
        notice, changes=notice.changes[:1], more=notice.more + max(0, len(notice.changes) - 1)
    )


def trial_message(route: str, time: datetime, link: str | None = None) -> Message:
    """Return the message of `assay alerts routes test`."""
    change = ChangeNotice(
        id="test",
        model="bert-base-uncased",
        hardware="test-hardware",
        platform="cpu",
        precision="fp32",
        metric="latency_p50_ms",
        unit="ms",
        kind="step",
        before=10.0,
        after=11.5,
        change=0.15,
        low=0.12,
        high=0.18,
        first="test",
        last="test",
    )
    notice = Notice(
        alert="test",
        event_id="test",
        title="A test message of Assay: nothing got worse",
        direction="worse",
        kind="performance",
        state="test",
        changes=[change],
    )
    return compose([notice], route, time, link)


def slack_of(message: Message) -> dict[str, Any]:
    """Return the JSON that Slack's incoming webhooks take: `text` for notifications, `blocks` for the channel."""
    subject = _subject(message)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(subject, _SLACK_HEADER), "emoji": False}}
    ]
    left = _SLACK_CHANGES
    for notice in message.data.alerts:
        if left <= 0:
            break
        lines = [f"*{_slack_text(notice.title)}*", *(_slack_text(line) for line in _remarks(notice))]
        lines += [f"• {_slack_text(_sentence(change))}" for change in notice.changes[:left]]
        rest = notice.more + len(notice.changes[left:])
        lines += [f"and {rest:,} more changes"] if rest else []
        left -= max(1, len(notice.changes))
        text = _cut("\n".join(lines), _SLACK_SECTION)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    unlisted = message.data.more + len(message.data.alerts) - (len(blocks) - 1)
    end = [f"and {unlisted:,} more alerts"] if unlisted else []
    end += [_slack_text(_where(message))]
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": _cut(" · ".join(end), _SLACK_SECTION)}]})
    return {"text": _slack_text(subject), "blocks": blocks}


def mail_of(message: Message) -> tuple[str, str, str]:
    """Return subject, plain text and HTML of a mail."""
    text, rows = [], []
    for notice in message.data.alerts:
        lines = [*_remarks(notice), *(_sentence(change) for change in notice.changes)]
        lines += [f"and {notice.more:,} more changes"] if notice.more else []
        text += [notice.title, *(f"  {line}" for line in lines), ""]
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        rows.append(f"<h3>{html.escape(notice.title)}</h3><ul>{items}</ul>")
    end = [f"and {message.data.more:,} more alerts"] if message.data.more else []
    end += [_where(message)]
    subject = _subject(message)
    foot = "".join(f"<p>{html.escape(line)}</p>" for line in end)
    page = f'<!doctype html><html lang="en"><body><h2>{html.escape(subject)}</h2>{"".join(rows)}{foot}</body></html>'
    return f"[assay] {subject}", "\n".join([*text, *end, ""]), page


def _subject(message: Message) -> str:
    data = message.data
    number = len(data.alerts) + data.more
    if number == 1:
        notice = data.alerts[0]
        return notice.title if notice.state in ("new", "test") else f"{notice.state}: {notice.title}"
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(data.states.items()))
    return f"{number:,} alerts ({states})"


def _remarks(notice: Notice) -> list[str]:
    """Return what is said of an alert before its changes: its state, cause and owners."""
    remarks = []
    if notice.state not in ("new", "test"):
        remarks.append(f"now {notice.state}" + (f" ({notice.author})" if notice.author else ""))
        remarks += [notice.reason] if notice.reason else []
    if notice.cause is not None:
        before, after = notice.cause.before or "none", notice.cause.after or "none"
        remarks.append(f"candidate cause: {notice.cause.part} {before} → {after}")
    if notice.owners:
        remarks.append(f"owners: {', '.join(notice.owners)}")
    return remarks


def _sentence(change: ChangeNotice) -> str:
    batch = f", batch {change.batch_size}" if change.batch_size is not None else ""
    precision = f" {change.precision}" if change.precision else ""
    where = f"{change.model} on {change.hardware}, {change.platform}{precision}{batch}"
    if change.kind == "functional":
        states = ["passes" if value >= 0.5 else "fails" for value in (change.before, change.after)]
        return f"{_line(where)}: {_line(change.metric)} {states[0]} → {states[1]}"
    interval = ""
    if change.low is not None and change.high is not None:
        interval = f", {change.low * 100:+.1f} to {change.high * 100:+.1f} %"
    figures = f"{change.before:.4g} → {change.after:.4g} {change.unit} ({change.change * 100:+.1f} %{interval})"
    return f"{_line(where)}: {change.metric} {figures}"


def _where(message: Message) -> str:
    alerts = message.data.alerts
    command = f"assay alerts show {alerts[0].alert}" if len(alerts) == 1 else "assay alerts list"
    place = [message.data.link] if message.data.link else []
    return " · ".join([*place, command, f"route {message.data.route}"])


def _line(text: str) -> str:
    """Return a text as one line without control characters, of bounded length."""
    return _cut(" ".join("".join(letter if letter.isprintable() else " " for letter in text).split()), _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
