"""Recurrent and relative-attention language models, and models of tables: what NVIDIA/DeepLearningExamples measures.

Dai et al., "Transformer-XL", 2019 (base and large of WikiText-103, with the memory lengths of its benchmark);
Wu et al., "GNMT", 2016; Vaswani et al., 2017 (big); Lim et al., "Temporal Fusion Transformers", 2019 (electricity); Cheng
et al., "Wide & Deep", 2016 (Outbrain); He et al., "Neural collaborative filtering", 2017.
Written from the papers and the published configurations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from research.traced.blocks import Module
from research.traced.entry import Entry, tokens
from research.traced.speech import Cell

__all__ = ["entries"]

VOCABULARY = 267_735
CUTOFFS = (19_997, 39_997, 199_997)
TAIL_SHARES = (8, 16, 32)
"""One token in so many falls into each tail of the adaptive softmax; the rest are frequent words."""


class Relative(Module):
    """Attention over a segment and the memory before it, with relative positions."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.positions = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)
        self.content, self.place = (
            nn.Parameter(torch.empty(heads, self.size)),
            nn.Parameter(torch.empty(heads, self.size)),
        )
        self.feed = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.feed_norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        length, total = x.shape[1], memory.shape[1] + x.shape[1]
        query, key, value = self.qkv(torch.cat((memory, x), 1)).chunk(3, -1)
        query = query[:, -length:].view(1, length, self.heads, self.size)
        key, value = (part.view(1, total, self.heads, self.size) for part in (key, value))
        relative = self.positions(positions).view(total, self.heads, self.size)
        scores = torch.matmul((query + self.content).transpose(1, 2), key.permute(0, 2, 3, 1))
        placed = torch.matmul((query + self.place).transpose(1, 2), relative.permute(1, 2, 0))
        shifted = functional.pad(placed, (1, 0)).view(1, self.heads, total + 1, length)[:, :, 1:].reshape(placed.shape)
        weights = ((scores + shifted) * self.size**-0.5).softmax(-1)
        mixed = torch.matmul(weights, value.transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        x = self.norm(x + self.out(mixed))
        return self.feed_norm(x + self.feed(x))


class TransformerXL(Module):
    """A segment of tokens after a memory, and the adaptive softmax over the vocabulary of WikiText-103."""

    def __init__(self, width: int, layers: int, heads: int, inner: int, divisor: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Relative(width, heads, inner) for _ in range(layers)])
        edges = (0, *CUTOFFS, VOCABULARY)
        widths = [width // divisor**n for n in range(4)]
        counts = [after - before for before, after in itertools.pairwise(edges)]
        self.embed = nn.ModuleList([nn.Embedding(count, size) for count, size in zip(counts, widths, strict=True)])
        self.narrow = nn.ModuleList([nn.Linear(width, size, bias=False) for size in widths])
        self.bias = nn.ParameterList([nn.Parameter(torch.empty(count)) for count in counts])
        self.clusters = nn.Linear(width, 3)

    def forward(self, words: torch.Tensor, memory: torch.Tensor) -> Any:
        x = functional.linear(self.embed[0](words), self.narrow[0].weight.T)
        positions = x.new_empty(memory.shape[1] + x.shape[1], x.shape[2])
        for layer in self.layers:
            x = layer(x, memory, positions)
        hidden = x.flatten(0, 1)
        found = [torch.cat((self._scores(hidden, 0), self.clusters(hidden)), -1).log_softmax(-1)]
        for tail, share in enumerate(TAIL_SHARES, 1):
            found.append(self._scores(hidden[: max(1, len(hidden) // share)], tail).log_softmax(-1))
        return found

    def _scores(self, hidden: torch.Tensor, cluster: int) -> torch.Tensor:
        return functional.linear(self.narrow[cluster](hidden), self.embed[cluster].weight, self.bias[cluster])


class Gnmt(Module):
    """Four LSTM layers read a sentence, the first both ways; four write its translation, `steps` words, greedily."""

    def __init__(self, width: int = 1024, vocabulary: int = 32_320) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.sides = nn.ModuleList([Cell(width, width), Cell(width, width)])
        self.reading = nn.ModuleList([Cell(2 * width if n == 0 else width, width) for n in range(3)])
        self.writing = nn.ModuleList([Cell(width if n == 0 else 2 * width, width) for n in range(4)])
        self.query, self.memory = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.score, self.words = nn.Linear(width, 1, bias=False), nn.Linear(width, vocabulary)

    def forward(self, words: torch.Tensor, steps: int) -> torch.Tensor:
        x = self.source(words)
        x = torch.cat([self._read(side, x) for side in self.sides], -1)
        for number, cell in enumerate(self.reading):
            read = self._read(cell, x)
            x = read + x if number > 1 else read
        memory = self.memory(x)
        zero = x.new_empty(1, x.shape[-1])
        states = [(zero, zero) for _ in self.writing]
        word = words[:, 0]
        scores = []
        for _ in range(steps):
            states[0] = self.writing[0](self.target(word), *states[0])
            weights = self.score(torch.tanh(self.query(states[0][0]).unsqueeze(1) + memory)).softmax(1)
            context, hidden = (weights * x).sum(1), states[0][0]
            for number in range(1, 4):
                states[number] = self.writing[number](torch.cat((hidden, context), -1), *states[number])
                hidden = states[number][0] + hidden if number > 1 else states[number][0]
            scores.append(self.words(hidden).log_softmax(-1))
        return torch.stack(scores, 1)

    @staticmethod
    def _read(cell: nn.Module, x: torch.Tensor) -> torch.Tensor:
        hidden = state = x.new_empty(1, cell.keep.in_features)
        outputs = []
        for step in x.unbind(1):
            hidden, state = cell(step, hidden, state)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class Translator(Module):
    """The big transformer of Vaswani et al. on a sentence and its translation, as in training."""

    def __init__(self, width: int = 1024, heads: int = 16, inner: int = 4096, vocabulary: int = 33_712) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.net = nn.Transformer(width, heads, 6, 6, inner, 0.0, batch_first=True)

    def forward(self, words: torch.Tensor, translation: torch.Tensor) -> torch.Tensor:
        return functional.linear(self.net(self.embed(words), self.embed(translation)), self.embed.weight)


class Gated(Module):
    """TFT's gated residual network, with a context where one is given."""

    def __init__(self, inputs: int, width: int, outputs: int | None = None, *, context: bool = False) -> None:
        super().__init__()
        outputs = outputs or width
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.context = nn.Linear(width, width, bias=False) if context else None
        self.gate, self.norm = nn.Linear(width, 2 * outputs), nn.LayerNorm(outputs)
        self.skip = nn.Linear(inputs, outputs) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        hidden = self.first(x)
        if self.context is not None and context is not None:
            hidden = hidden + self.context(context)
        gated = functional.glu(self.gate(self.second(functional.elu(hidden))), -1)
        return self.norm(gated + self.skip(x))


class Selection(Module):
    """Weights over variables, and the variables transformed and summed with them."""

    def __init__(self, count: int, width: int, *, context: bool = False) -> None:
        super().__init__()
        self.joint = Gated(count * width, width, count, context=context)
        self.parts = nn.ModuleList([Gated(width, width) for _ in range(count)])

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        weights = self.joint(x.flatten(-2), context).softmax(-1)
        parts = torch.stack([part(x[..., n, :]) for n, part in enumerate(self.parts)], -1)
        return (parts @ weights.unsqueeze(-1)).squeeze(-1)


class FusionTransformer(Module):
    """TFT for electricity: 168 hours of history, 24 hours ahead, one static, three known and one observed variable."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.static, self.clients = Selection(1, width), nn.Embedding(369, width)
        self.contexts = nn.ModuleList([Gated(width, width) for _ in range(4)])
        self.embed = nn.ParameterList([nn.Parameter(torch.empty(4, width)) for _ in range(2)])
        self.past, self.future = Selection(4, width, context=True), Selection(3, width, context=True)
        self.encode, self.decode = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.gates = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.enrich, self.refine = Gated(width, width, context=True), Gated(width, width)
        self.qkv, self.out = (
            nn.Linear(width, width * 2 + width // heads, bias=False),
            nn.Linear(width // heads, width, bias=False),
        )
        self.quantiles = nn.Linear(width, 3)

    def forward(self, past: torch.Tensor, future: torch.Tensor, client: torch.Tensor) -> torch.Tensor:
        static = self.static(self.clients(client).unsqueeze(-2))
        select, enrich, hidden, cell = (part(static) for part in self.contexts)
        before = self.past(past.unsqueeze(-1) * self.embed[0], select.unsqueeze(1))
        after = self.future(future.unsqueeze(-1) * self.embed[1][:3], select.unsqueeze(1))
        state = (hidden.unsqueeze(0), cell.unsqueeze(0))
        first, state = self.encode(before, state)
        second, _ = self.decode(after, state)
        inputs = torch.cat((before, after), 1)
        x = self._add(0, torch.cat((first, second), 1), inputs)
        temporal = x
        x = self.enrich(x, enrich.unsqueeze(1))
        size = self.width // self.heads
        query, key, value = self.qkv(x).split((self.width, self.width, size), -1)
        query, key = (part.view(1, x.shape[1], self.heads, size).transpose(1, 2) for part in (query, key))
        weights = (query @ key.transpose(2, 3) * size**-0.5).softmax(-1)
        mixed = self.out((weights @ value.unsqueeze(1)).mean(1))
        x = self._add(1, mixed[:, 168:], x[:, 168:])
        x = self._add(2, self.refine(x), temporal[:, 168:])
        return self.quantiles(x)

    def _add(self, number: int, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return self.norms[number](functional.glu(self.gates[number](x), -1) + skip)


class WideAndDeep(Module):
    """A linear part over all features, and five layers of 1024 over embeddings and numbers (Outbrain)."""

    TABLES = (
        # rows and width of each embedding
        (250_000, 128),
        (300_000, 128),
        (4, 19),
        (100_000, 128),
        (5_000, 128),
        (2_500, 64),
        (4_000, 64),
        (2_500, 64),
        (300, 64),
        (2_000, 64),
        (1_000, 64),
        (4_000, 64),
        (1_000, 64),
    )
    NUMBERS = 13

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(count, width) for count, width in self.TABLES])
        self.wide = nn.ModuleList([nn.Embedding(count, 1) for count, _ in self.TABLES])
        inputs = sum(width for _, width in self.TABLES) + self.NUMBERS
        layers: list[nn.Module] = []
        for _ in range(5):
            layers += [nn.Linear(inputs, 1024), nn.ReLU()]
            inputs = 1024
        self.deep, self.numbers = nn.Sequential(*layers, nn.Linear(1024, 1)), nn.Linear(self.NUMBERS, 1)

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        parts = [table(categories[:, n]) for n, table in enumerate(self.tables)]
        linear = torch.cat([table(categories[:, n]) for n, table in enumerate(self.wide)], 1).sum(1, keepdim=True)
        return (self.deep(torch.cat((*parts, numbers), 1)) + linear + self.numbers(numbers)).sigmoid()


class NeuMF(Module):
    """Matrix factorization beside four layers over joined embeddings of a user and an item (MovieLens 20M)."""

    def __init__(self, users: int = 138_493, items: int = 26_744, factors: int = 64) -> None:
        super().__init__()
        self.factors = nn.ModuleList([nn.Embedding(users, factors), nn.Embedding(items, factors)])
        self.inputs = nn.ModuleList([nn.Embedding(users, 128), nn.Embedding(items, 128)])
        widths = (256, 256, 128, 64)
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.layers, self.out = nn.Sequential(*layers), nn.Linear(factors + 64, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        product = self.factors[0](user) * self.factors[1](item)
        deep = self.layers(torch.cat((self.inputs[0](user), self.inputs[1](item)), -1))
        return self.out(torch.cat((product, deep), -1))


def _transformer_xl(name: str, length: int, memory: int) -> Any:
    width, layers, heads, inner, divisor = {"base": (512, 16, 8, 2048, 1), "large": (1024, 18, 16, 4096, 4)}[name]
    return TransformerXL(width, layers, heads, inner, divisor), (tokens(length), torch.empty(1, memory, width))


def _tft() -> Any:
    client = torch.zeros(1, dtype=torch.long, device="cpu")
    return FusionTransformer(), (torch.empty(1, 168, 4), torch.empty(1, 24, 3), client)


def entries() -> Iterator[Entry]:
    """Yield the language models and the models of tables."""
    for name, length, memory, steps in (("base", 64, 640, 192), ("large", 128, 1600, 384)):
        for tokens_, before, training in ((length, memory, False), (steps, steps, True)):
            yield Entry(
                f"architecture/transformer-xl-{name}",
                "text_generation",
                "transformer-xl",
                lambda name=name, tokens_=tokens_, before=before: _transformer_xl(name, tokens_, before),
                "text-generation",
                {"sequence_length": tokens_},
                training,
            )
    yield Entry(
        "architecture/gnmt",
        "text_to_text",
        "gnmt",
        lambda: (Gnmt(), (tokens(25), 25)),
        "translation",
        {"sequence_length": 25},
    )
    yield Entry(
        "architecture/transformer-big",
        "text_to_text",
        "transformer",
        lambda: (Translator(), (tokens(32), tokens(32))),
        "translation",
        {"sequence_length": 32},
        True,
    )
    yield Entry("architecture/tft-electricity", None, "tft", _tft, "time-series-forecasting", {}, True)
    yield Entry(
        "architecture/wide-and-deep",
        None,
        "wide-and-deep",
        lambda: (WideAndDeep(), (tokens(13), torch.empty(1, WideAndDeep.NUMBERS))),
        "tabular-classification",
        {},
        True,
    )
    yield Entry(
        "architecture/neumf",
        None,
        "neumf",
        lambda: (NeuMF(), (tokens()[:1], tokens()[:1])),
        "tabular-classification",
        {},
        True,
    )
