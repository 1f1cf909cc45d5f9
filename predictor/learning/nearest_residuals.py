"""What lies nearest: rows of like work, with the same software on the same device, are left with like errors.

A Gaussian process over the log error of one software configuration. Its inputs describe the work (which share of the
time each kind of operator takes, and in which shapes); members of a family share something more. Closeness to what was
measured is also the best sign of how far a prediction may be trusted.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Names
from predictor.learning.single_thread import single_threaded

__all__ = ["MOST_ROWS", "Field"]

Places = NDArray[np.float32]
MOST_ROWS = 2500
"""Solving takes the cube of the rows: of more, the last ones count."""
NEAR, FAR = 1.0, 4.0
"""Distances over which likeness fades: of the same design, and of the same kind of design."""
NEAR_VARIANCE, FAR_VARIANCE = 0.05, 0.3
"""What rows that near and that far share, in squared log units."""
FAMILY_VARIANCE = 0.02
"""What members of a family share at any distance, and again near by."""
NOISE_VARIANCE = 0.0025
"""A row beside another of the same work: 5 %."""
VARIANCE = NEAR_VARIANCE + FAR_VARIANCE + 2 * FAMILY_VARIANCE


class Field(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Rows that were measured: `places` (rows, inputs), `families`, and how each pulls what lies near; log units.

    `usual` is the doubt about a usual row of these, given all rows of other architectures.
    """

    places: Places
    families: Names
    centre: float
    pull: Array
    usual: float

    @classmethod
    def fitted(cls, places: Matrix, families: Names, architectures: Names, errors: Array) -> Field:
        """Return the field of some log errors, (rows,); at least one row."""
        kept = slice(-MOST_ROWS, None)
        near, families = _kept(places[kept]), families[kept]
        architectures, errors = architectures[kept], errors[kept]
        centre = float(np.median(errors))
        with single_threaded():
            likeness = _likeness(near, families, near, families)
            covariance = likeness.astype(np.float64) + NOISE_VARIANCE * np.eye(len(errors))
            pull = np.linalg.solve(covariance, errors - centre)
        _, same = np.unique(architectures, return_inverse=True)
        others = np.where(same[:, None] == same[None, :], np.float32(0), likeness)
        return cls(
            places=near,
            families=families,
            centre=centre,
            pull=pull.astype(np.float32).astype(np.float64),
            usual=float(np.median(_doubt(others))),
        )

    def document(self) -> dict[str, Any]:
        """Return what to keep, for JSON; `restored` gives the same field again, bit for bit."""
        names, members = np.unique(self.families, return_inverse=True)
        return {
            "places": _text(self.places.astype("<f2")),
            "inputs": self.places.shape[1],
            "names": names.tolist(),
            "families": members.tolist(),
            "pull": _text(self.pull.astype("<f4")),
            "centre": self.centre,
            "usual": self.usual,
        }

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> Field:
        """Return the field from its document."""
        places = np.frombuffer(base64.b64decode(document["places"]), dtype="<f2").astype(np.float32)
        return cls(
            places=places.reshape(-1, document["inputs"]),
            families=np.array(document["names"], dtype=str)[document["families"]],
            centre=document["centre"],
            pull=np.frombuffer(base64.b64decode(document["pull"]), dtype="<f4").astype(np.float64),
            usual=document["usual"],
        )

    def at(self, places: Matrix, families: Names) -> tuple[Array, Array]:
        """Return the expected log error of each row and the doubt about it beside a usual row's (1 is usual)."""
        with single_threaded():
            likeness = _likeness(_kept(places), families, self.places, self.families)
            expected = self.centre + likeness @ self.pull.astype(np.float32)
        return expected.astype(np.float64), _doubt(likeness) / self.usual


def _kept(places: Matrix) -> Places:
    """Return places as they are kept: with three digits, so that what is restored predicts the same."""
    return np.asarray(places.astype(np.float16).astype(np.float32))


def _text(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _likeness(some: Places, families: Names, others: Places, other_families: Names) -> Places:
    """Return what log errors share by the distance of their work (Matérn's form, once differentiable) and family."""
    apart: Places = some @ (-2 * others.T)
    apart += (some**2).sum(axis=1)[:, None]
    apart += (others**2).sum(axis=1)[None, :]
    np.sqrt(np.maximum(apart, 0.0, out=apart), out=apart)
    shared, far = _faded(apart, NEAR), _faded(apart, FAR)
    codes, other_codes = _codes(families, other_families)
    related = np.where(codes[:, None] == other_codes[None, :], np.float32(FAMILY_VARIANCE), np.float32(0))
    shared *= related + np.float32(NEAR_VARIANCE)
    far *= np.float32(FAR_VARIANCE)
    shared += far
    shared += related
    return shared


def _codes(families: Names, others: Names) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return families as numbers, because comparing a million names is slow; one that is not among the others is -1."""
    names, codes = np.unique(others, return_inverse=True)
    minimum = np.minimum(np.searchsorted(names, families), len(names) - 1)
    return np.where(names[minimum] == families, minimum, -1), codes


def _faded(distance: Places, reach: float) -> Places:
    """Return 1 at no distance, fading; in place wherever it can be, because a thousand predictions are a million of these."""
    scaled = distance * np.float32(math.sqrt(3) / reach)
    faded: Places = np.exp(-scaled)
    scaled += np.float32(1)
    faded *= scaled
    return faded


def _doubt(likeness: Places) -> Array:
    """Return the standard deviation of each row given the one row that is most like it, in log units."""
    most = likeness.max(axis=1).astype(np.float64)
    left = VARIANCE - most**2 / (VARIANCE + NOISE_VARIANCE)
    return np.asarray(np.sqrt(np.maximum(left, 0.0) + NOISE_VARIANCE), dtype=np.float64)
