"""Events without what tells whose they are: what is left is what was measured, on what, with which software.

An event is read by the structure of its data, so that a member which no version declares is left out. Every string of it,
the names of members of open objects included, is searched for what is private. A string of one word that holds any becomes
`private`, so that it stays a word; in a sentence each part is replaced, such as by `<path>`. docs/sharing.md lists it all.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from domain.catalogues import language_models, models
from domain.events import Decoded, new_event
from domain.sharing.bundles import derived_uuid

__all__ = ["TIMES", "Anonymiser", "Times"]

Times = Literal["exact", "hour", "day"]
TIMES: tuple[Times, ...] = ("day", "hour", "exact")
"""How exactly the time of an event is kept; the first one is usual."""
SOURCE = "assay-share"
PRIVATE = "private"

_END = r"[^\s'\"<>|*?,;()\[\]{}]"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("token", re.compile(r"(?i:\bbearer\s+\S+)|\beyJ[\w-]{8,}\.[\w.-]+")),
    ("address", re.compile(rf"\b[A-Za-z][A-Za-z0-9+.-]*://{_END}+")),
    ("path", re.compile(rf"(?:\b[A-Za-z]:[\\/]|\\\\|(?<![\w.…/])(?:~[\w.-]*|\.{{1,2}}|…)?/(?=[\w.~…-]))(?:{_END})*")),
    ("variable", re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{2,}=(?:'[^']*'|\"[^\"]*\"|\S+)")),
    (
        "token",
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{12,}|hf_(?:oauth|jwt)_[\w.-]{8,}|(?:assay_|sk-|gh[opsur]_|github_pat_|glpat-|xox[a-z]-)"
            r"[\w-]{8,}|AKIA[0-9A-Z]{16})"
        ),
    ),
    ("address", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*")),
    ("id", re.compile(r"(?i)(?:\b(?:GPU|MIG)-)?(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")),
    (
        "id",
        re.compile(
            r"(?i)\b(?:serial(?:[ _-]?(?:number|no\.?))?|s/n|asset[ _-]?tag)(?:\s*[:=#]\s*|\s+(?=\S*\d))[\w./-]+"
        ),
    ),
    ("name", re.compile(r"(?i)\b(?:host(?:name)?|node|user(?:name)?|login)\s*[:=]\s*[\w.-]+")),
    ("address", re.compile(r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}[:-]){5,7}[0-9A-Fa-f]{2}(?![0-9A-Za-z])")),
    (
        "address",
        re.compile(
            r"(?i)(?<![\w.-])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:local|internal|lan|corp|intranet|localdomain|example|com|net|org"
            r"|io|edu|gov|cloud)(?![\w-])"
        ),
    ),
)
_NUMERIC = re.compile(r"(?<![\w:.])[0-9A-Fa-f:.]*[0-9A-Fa-f][:.][0-9A-Fa-f:.]*(?!\w)")
"""What may be an address of IPv6 or IPv4; times of day and versions of three parts look alike and are none."""
_FOUR_PARTS = re.compile(r"(?i)tensorrt|nvidia|cuda|cudnn|cublas|qairt|qnn|directml")
"""Software whose versions have four numbers, as addresses have."""
_USERS = re.compile(r"(?i)(?:/home/|/Users/|[A-Z]:\\Users\\)([^\s/\\'\"<>:|]+)|(?<![\w.+-])([\w.+-]+)@[\w-]+")
_COMMON = frozenset(
    {
        "admin",
        "administrator",
        "default",
        "git",
        "home",
        "localhost",
        "public",
        "root",
        "runner",
        "shared",
        "ubuntu",
        "user",
    }
)
"""Names that many have: hiding them hides nothing, and spoils words."""
_VERSION = re.compile(r"\d+(?:\.\d+){3}")
_SECRET_NAME = re.compile(r"(?i)pass(?:word|wd|phrase)|secret|token$|api_?key|credential|cookie|_env$|environ")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DROPPED = frozenset({"run_id", "plan", "context", "samples", "imported", "weights_reason"})
"""Members that say how a run was begun, or by which it could be found in the log that it comes from."""
_OF_PRIVATE_MODELS = ("architecture", "revision", "family")


class Anonymiser:
    """Replaces what is private, and counts it in `counts` by what it is: address, id, name, path, token, variable, model.

    Ids are replaced by ones that are derived with `secret`: the same event always gets the same id, which nobody who does
    not have the secret can trace back. `names` are words to hide wherever they stand, `models` maps ids of models to others.
    """

    def __init__(
        self, secret: bytes, *, names: Iterable[str] = (), models: Mapping[str, str] | None = None, times: Times = "day"
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._secret = secret
        self._models = dict(models or {})
        self._times = times
        self._names: dict[str, None] = {}
        self._hidden: re.Pattern[str] | None = None
        self._hide(names)

    def learn(self, events: Iterable[Decoded]) -> None:
        """Hide from now on the names of users that stand in the paths and addresses of these events."""
        for event in events:
            for text in _strings(msgspec.to_builtins(event.data)):
                self._hide(name for match in _USERS.finditer(text) for name in match.groups() if name)

    def event(self, event: Decoded) -> dict[str, Any]:
        """Return the event as it is shared. It must be of a type that this version knows."""
        data = self._object(msgspec.to_builtins(event.data), "")
        run_id = getattr(event.data, "run_id", None)
        if run_id is not None:
            data["run_id"] = self._derived("run", run_id).hex()[:32]
        if "model" in data:
            data["model"] = self._model(data["model"], msgspec.to_builtins(event.data)["model"]["id"])
        if "provenance" in data:
            data["provenance"] = {"origin": data["provenance"]["origin"]}
        return new_event(
            event.type,
            data,
            source=SOURCE,
            time=self._time(event.time),
            id=derived_uuid(self._derived("event", event.id)),
        )

    def text(self, text: str) -> str:
        """Return a text without what is private."""
        plain = _COLOURS.sub("", text)
        found: Counter[str] = Counter()

        def replaced(kind: str) -> str:
            found[kind] += 1
            return f"<{kind}>"

        scrubbed = plain
        for kind, pattern in _PATTERNS:
            scrubbed = pattern.sub(lambda _, kind=kind: replaced(kind), scrubbed)  # type: ignore[misc]
        scrubbed = _NUMERIC.sub(lambda match: replaced("address") if _is_address(match[0]) else match[0], scrubbed)
        if self._hidden is not None:
            scrubbed = self._hidden.sub(lambda _: replaced("name"), scrubbed)
        self.counts.update(found)
        return scrubbed if not found or re.search(r"\s", plain) else PRIVATE

    def _hide(self, names: Iterable[str]) -> None:
        fresh = [name for name in names if len(name) > 2 and name.lower() not in _COMMON and name not in self._names]
        if fresh or self._hidden is None:
            self._names |= dict.fromkeys(fresh)
            words = [*self._names, *self._models]
            longest = sorted(words, key=len, reverse=True)
            either = "|".join(re.escape(name) for name in longest)
            self._hidden = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])") if words else None

    def _object(self, value: Mapping[str, Any], inside: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, item in value.items():
            if inside in ("", "model") and name in _DROPPED:
                continue
            software = str(value.get("name")) if inside == "runtime" and name == "version" else name
            four = (inside == "libraries" or software != name) and isinstance(item, str) and _VERSION.fullmatch(item)
            keep = four and _FOUR_PARTS.search(software)
            result[self.text(name)] = item if keep else self._value(item, name, inside)
        return result

    def _value(self, value: Any, name: str, inside: str) -> Any:
        if isinstance(value, str):
            if (name, inside) == ("fingerprint", "environment"):
                return self._derived("environment", value).hex()[:16]
            if _SECRET_NAME.search(name):
                self.counts["token"] += 1
                return PRIVATE
            return self.text(value)
        if isinstance(value, dict):
            return self._object(value, name)
        if isinstance(value, list | tuple):
            return [self._value(item, name, inside) for item in value]
        return value

    def _model(self, model: dict[str, Any], identifier: str) -> dict[str, Any]:
        """Return a model under the name that it may have; what the catalogue has is public."""
        renamed = self._models.get(identifier)
        if renamed is not None:
            self.counts["model"] += 1
            return {**{name: item for name, item in model.items() if name not in _OF_PRIVATE_MODELS}, "id": renamed}
        if models.find(identifier) is not None or language_models.find(identifier) is not None:
            return {**model, "id": identifier}
        if model["id"] == PRIVATE:
            return {**model, "id": f"{PRIVATE}-{self._derived('model', identifier).hex()[:8]}"}
        return model

    def _time(self, time: datetime | None) -> datetime | None:
        if time is None or self._times == "exact":
            return None if time is None else time.astimezone(UTC)
        hour = 0 if self._times == "day" else time.astimezone(UTC).hour
        return time.astimezone(UTC).replace(hour=hour, minute=0, second=0, microsecond=0)

    def _derived(self, kind: str, text: str) -> bytes:
        return hmac.new(self._secret, f"{kind}\n{text}".encode(), hashlib.sha256).digest()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _is_address(text: str) -> bool:
    """Return whether a run of digits, dots and colons is an address, a port or the end of a clause left aside."""
    for part in (text, text.rstrip(":."), text.partition(":")[0]):
        try:
            return bool(ipaddress.ip_address(part))
        except ValueError:
            continue
    return False
