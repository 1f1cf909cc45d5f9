"""Speech recognition and synthesis: Jasper, QuartzNet, FastPitch, HiFi-GAN, Tacotron 2 with WaveGlow, YAMNet.

Li et al., "Jasper", 2019 (10x5 with dense residuals); Kriman et al., "QuartzNet", 2019 (15x5); Łańcucki, "FastPitch", 2021;
Kong et al., "HiFi-GAN", 2020 (V1); Shen et al., 2018, and Prenger et al., "WaveGlow", 2018, all with the sizes of
NVIDIA/DeepLearningExamples; Google's YAMNet (tensorflow/models). Written from the papers and the published configurations.
An utterance has 128 characters and 602 frames where the publisher says no other length, as its own benchmark has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from research.traced.blocks import Module, conv
from research.traced.entry import Entry, tokens
from research.traced.ssd import MobileNetV1

__all__ = ["entries"]

CHARACTERS, FRAMES = 128, 602


def _line(
    inputs: int, outputs: int, kernel: int, act: str | None = "relu", *, stride: int = 1, dilation: int = 1
) -> nn.Module:
    return conv(inputs, outputs, kernel, stride, act, dilation=dilation, dimensions=1)


class DenseJasper(Module):
    """Ten blocks of five convolutions; each block adds the outputs of all blocks before it."""

    BLOCKS = tuple(
        (width, kernel) for width, kernel in ((256, 11), (384, 13), (512, 17), (640, 21), (768, 25)) for _ in "12"
    )

    def __init__(self) -> None:
        super().__init__()
        self.first, inputs, earlier = _line(64, 256, 11, stride=2), 256, [256]
        bodies, residuals = [], []
        for width, kernel in self.BLOCKS:
            layers = [_line(inputs if n == 0 else width, width, kernel, "relu" if n < 4 else None) for n in range(5)]
            bodies.append(nn.Sequential(*layers))
            residuals.append(nn.ModuleList([_line(before, width, 1, None) for before in earlier]))
            earlier.append(width)
            inputs = width
        self.bodies, self.residuals = nn.ModuleList(bodies), nn.ModuleList(residuals)
        self.last = nn.Sequential(_line(768, 896, 29, dilation=2), _line(896, 1024, 1), nn.Conv1d(1024, 29, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.first(x)]
        for body, residuals in zip(self.bodies, self.residuals, strict=True):
            x = body(kept[-1])
            for part, before in zip(residuals, kept, strict=True):
                x = x + part(before)
            kept.append(nn.functional.relu(x))
        return self.last(kept[-1]).log_softmax(1)


class Separable(Module):
    """A convolution by channel along time, a pointwise one, and a batch norm."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1, act: bool = True
    ) -> None:
        super().__init__()
        margin = dilation * (kernel - 1) // 2
        self.time = nn.Conv1d(inputs, inputs, kernel, stride, margin, dilation=dilation, groups=inputs, bias=False)
        self.mix, self.act = _line(inputs, outputs, 1, None), nn.ReLU() if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.mix(self.time(x)))


class QuartzBlock(Module):
    """Five separable convolutions beside a pointwise one."""

    def __init__(self, inputs: int, width: int, kernel: int) -> None:
        super().__init__()
        layers = [Separable(inputs if n == 0 else width, width, kernel, act=n < 4) for n in range(5)]
        self.body, self.skip = nn.Sequential(*layers), _line(inputs, width, 1, None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.body(x) + self.skip(x))


class QuartzNet(Module):
    """Fifteen blocks in five groups."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [Separable(64, 256, 33, stride=2)]
        inputs = 256
        for width, kernel in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)):
            for _ in range(3):
                parts.append(QuartzBlock(inputs, width, kernel))
                inputs = width
        parts += [Separable(512, 512, 87, dilation=2), _line(512, 1024, 1), nn.Conv1d(1024, 29, 1)]
        self.parts = nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts(x).log_softmax(1)


class Feedforward(Module):
    """FastPitch's transformer layer: one head of 64, and two convolutions along time."""

    def __init__(self, width: int = 384, head: int = 64, inner: int = 1536, kernel: int = 3) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * head), nn.Linear(head, width, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        margin = kernel // 2
        self.wide, self.narrow = nn.Conv1d(width, inner, kernel, 1, margin), nn.Conv1d(inner, width, kernel, 1, margin)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(x).unsqueeze(1).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.norm1(x + self.out(mixed.squeeze(1)))
        inner = self.narrow(nn.functional.relu(self.wide(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm2(x + inner)


class Predictor(Module):
    """Two convolutions and a projection: durations, pitch or energy of each character."""

    def __init__(self, width: int = 384, inner: int = 256) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(width, inner, 3, 1, 1), nn.Conv1d(inner, inner, 3, 1, 1)])
        self.norms, self.out = nn.ModuleList([nn.LayerNorm(inner) for _ in range(2)]), nn.Linear(inner, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part, norm in zip(self.convs, self.norms, strict=True):
            x = norm(nn.functional.relu(part(x.transpose(1, 2))).transpose(1, 2))
        return self.out(x)


class FastPitch(Module):
    """Characters to mel frames: six layers on characters, six on frames, three predictors between them."""

    def __init__(self, frames: int) -> None:
        super().__init__()
        self.embed, self.frames = nn.Embedding(148, 384), frames
        self.encoder = nn.Sequential(*[Feedforward() for _ in range(6)])
        self.decoder = nn.Sequential(*[Feedforward() for _ in range(6)])
        self.predictors = nn.ModuleList([Predictor() for _ in range(3)])
        self.pitch, self.energy = nn.Conv1d(1, 384, 3, 1, 1), nn.Conv1d(1, 384, 3, 1, 1)
        self.position, self.out = nn.Parameter(torch.empty(1, 1024, 384)), nn.Linear(384, 80)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.embed(text)
        x = self.encoder(x + self.position[:, : x.shape[1]])
        durations, pitch, energy = (part(x) for part in self.predictors)
        x = x + self.pitch(pitch.transpose(1, 2)).transpose(1, 2) + self.energy(energy.transpose(1, 2)).transpose(1, 2)
        spread = x.new_empty(1, self.frames, x.shape[1])
        x = spread @ x + self.position[:, : self.frames] + 0 * durations.mean()
        return self.out(self.decoder(x)).transpose(1, 2)


class Residual(Module):
    """HiFi-GAN's residual block: three pairs of dilated convolutions of one kernel."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        pairs = [(self._conv(width, kernel, dilation), self._conv(width, kernel, 1)) for dilation in (1, 3, 5)]
        self.first, self.second = nn.ModuleList([a for a, _ in pairs]), nn.ModuleList([b for _, b in pairs])

    @staticmethod
    def _conv(width: int, kernel: int, dilation: int) -> nn.Module:
        return nn.Conv1d(width, width, kernel, 1, dilation * (kernel - 1) // 2, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            inner = first(nn.functional.leaky_relu(x, 0.1))
            x = x + second(nn.functional.leaky_relu(inner, 0.1))
        return x


class HifiGan(Module):
    """Mel frames to samples: four times wider in time, each time with residual blocks of three kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, width, ups, blocks = nn.Conv1d(80, 512, 7, 1, 3), 512, [], []
        for rate, kernel in ((8, 16), (8, 16), (2, 4), (2, 4)):
            ups.append(nn.ConvTranspose1d(width, width // 2, kernel, rate, (kernel - rate) // 2))
            width //= 2
            blocks.append(nn.ModuleList([Residual(width, size) for size in (3, 7, 11)]))
        self.ups, self.blocks, self.last = nn.ModuleList(ups), nn.ModuleList(blocks), nn.Conv1d(width, 1, 7, 1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(nn.functional.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / 3
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))


class Cell(Module):
    """One step of an LSTM, as two products and what is done to the four gates."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.read, self.keep = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        into, forget, new, out = (self.read(x) + self.keep(hidden)).chunk(4, -1)
        cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
        return out.sigmoid() * cell.tanh(), cell


class Tacotron2(Module):
    """Characters to mel frames, one frame a step: location-sensitive attention between two LSTM cells."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(148, 512)
        self.convs = nn.Sequential(*[_line(512, 512, 5) for _ in range(3)])
        self.forward_cell, self.backward_cell = Cell(512, 256), Cell(512, 256)
        self.memory = nn.Linear(512, 128, bias=False)
        self.prenet = nn.Sequential(
            nn.Linear(80, 256, bias=False), nn.ReLU(), nn.Linear(256, 256, bias=False), nn.ReLU()
        )
        self.attend, self.decode = Cell(256 + 512, 1024), Cell(1024 + 512, 1024)
        self.query, self.location = nn.Linear(1024, 128, bias=False), nn.Conv1d(2, 32, 31, 1, 15, bias=False)
        self.place, self.score = nn.Linear(32, 128, bias=False), nn.Linear(128, 1, bias=False)
        self.frame, self.gate = nn.Linear(1536, 80), nn.Linear(1536, 1)
        widths = (80, 512, 512, 512, 512, 80)
        self.postnet = nn.Sequential(
            *[_line(a, b, 5, "tanh" if n < 4 else None) for n, (a, b) in enumerate(itertools.pairwise(widths))]
        )

    def forward(self, text: torch.Tensor, frames: int) -> torch.Tensor:
        x = self.convs(self.embed(text).transpose(1, 2)).transpose(1, 2)
        sides = [self._run(cell, x) for cell in (self.forward_cell, self.backward_cell)]
        encoded = torch.cat(sides, -1)
        memory, mels = self.memory(encoded), []
        zero = x.new_empty(1, 1024)
        attending = decoding = (zero, zero)
        context, weights, frame = encoded[:, 0], encoded.new_empty(1, 2, x.shape[1]), x.new_empty(1, 80)
        for _ in range(frames):
            attending = self.attend(torch.cat((self.prenet(frame), context), -1), *attending)
            places = self.place(self.location(weights).transpose(1, 2))
            energies = self.score(torch.tanh(self.query(attending[0]).unsqueeze(1) + places + memory)).squeeze(-1)
            latest = energies.softmax(-1)
            weights = torch.stack((latest, weights[:, 1] + latest), 1)
            context = torch.bmm(latest.unsqueeze(1), encoded).squeeze(1)
            decoding = self.decode(torch.cat((attending[0], context), -1), *decoding)
            joined = torch.cat((decoding[0], context), -1)
            frame, _ = self.frame(joined), self.gate(joined)
            mels.append(frame)
        mel = torch.stack(mels, 2)
        return mel + self.postnet(mel)

    @staticmethod
    def _run(cell: Cell, x: torch.Tensor) -> torch.Tensor:
        hidden = state = x.new_empty(1, 256)
        outputs = []
        for step in x.unbind(1):
            hidden, state = cell(step, hidden, state)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class Coupling(Module):
    """One of WaveGlow's flows: an invertible 1 x 1 convolution and a WaveNet of eight layers on half of the channels."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.half, self.mix = channels // 2, nn.Conv1d(channels, channels, 1, bias=False)
        self.start, self.end = nn.Conv1d(self.half, width, 1), nn.Conv1d(width, channels, 1)
        self.condition = nn.Conv1d(640, 2 * width * 8, 1)
        self.dilated = nn.ModuleList([nn.Conv1d(width, 2 * width, 3, 1, 2**n, dilation=2**n) for n in range(8)])
        self.skip = nn.ModuleList([nn.Conv1d(width, 2 * width if n < 7 else width, 1) for n in range(8)])
        self.width = width

    def forward(self, audio: torch.Tensor, mel: torch.Tensor) -> torch.Tensor:
        kept, other = audio.split(self.half, 1)
        x, total = self.start(kept), 0.0
        conditions = self.condition(mel)
        for number, (dilated, skip) in enumerate(zip(self.dilated, self.skip, strict=True)):
            part = conditions[:, 2 * self.width * number : 2 * self.width * (number + 1)]
            left, right = (dilated(x) + part).chunk(2, 1)
            outputs = skip(left.tanh() * right.sigmoid())
            if number < 7:
                x = x + outputs[:, : self.width]
                total = total + outputs[:, self.width :]
            else:
                total = total + outputs
        shift, scale = self.end(total).chunk(2, 1)
        return self.mix(torch.cat((kept, (other - shift) / scale.exp()), 1))


class WaveGlow(Module):
    """Mel frames to samples through twelve flows over groups of eight samples."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.up, self.flows, channels = nn.ConvTranspose1d(80, 80, 1024, 256), nn.ModuleList(), 8
        for number in range(12):
            if number and number % 4 == 0:
                channels -= 2
            self.flows.append(Coupling(channels, width))
        self.last = channels

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.up(mel)[..., : mel.shape[-1] * 256]
        groups = x.unfold(2, 8, 8).permute(0, 2, 1, 3).flatten(2).transpose(1, 2)
        audio = x.new_empty(1, self.last, groups.shape[-1])
        for number in reversed(range(12)):
            audio = self.flows[number](audio, groups)
            if number and number % 4 == 0:
                audio = torch.cat((x.new_empty(1, 2, groups.shape[-1]), audio), 1)
        return audio.permute(0, 2, 1).flatten(1)


class Speaker(Module):
    """Tacotron 2 and WaveGlow one after the other: text to samples."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.sound = Tacotron2(), WaveGlow()

    def forward(self, text: torch.Tensor, frames: int) -> torch.Tensor:
        return self.sound(self.text(text, frames))


class YamNet(Module):
    """MobileNet v1 on a patch of 96 frames and 64 mel bands, with 521 classes of sounds."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.classify = MobileNetV1(act="relu"), nn.Linear(1024, 521)
        self.net.stem = conv(1, 32, 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.net(x)[-1].mean((2, 3))).sigmoid()


SECONDS = (2.0, 7.0, 16.7)


def entries() -> Iterator[Entry]:
    """Yield recognition at the three lengths of its benchmark, and synthesis at one."""
    speech = "automatic-speech-recognition"
    for name, build in (("jasper", DenseJasper), ("quartznet", QuartzNet)):
        for seconds in SECONDS:
            yield Entry(
                f"architecture/{name}",
                "audio",
                name,
                lambda build=build, seconds=seconds: (build(), (torch.empty(1, 64, round(seconds * 100)),)),
                speech,
                {"audio_seconds": seconds},
                seconds == SECONDS[-1],
            )
    voice = "text-to-speech"
    sizes: dict[str, Any] = {"sequence_length": CHARACTERS}
    yield Entry(
        "architecture/fastpitch",
        "audio",
        "fastpitch",
        lambda: (FastPitch(FRAMES), (tokens(CHARACTERS),)),
        voice,
        sizes,
        True,
    )
    yield Entry(
        "architecture/hifigan-v1", "audio", "hifigan", lambda: (HifiGan(), (torch.empty(1, 80, 661),)), voice, {}, True
    )
    yield Entry(
        "architecture/tacotron2-waveglow",
        "audio",
        "tacotron2",
        lambda: (Speaker(), (tokens(CHARACTERS), FRAMES)),
        voice,
    )
    yield Entry(
        "architecture/yamnet",
        "audio",
        "yamnet",
        lambda: (YamNet(), (torch.empty(1, 1, 96, 64),)),
        "audio-classification",
    )
