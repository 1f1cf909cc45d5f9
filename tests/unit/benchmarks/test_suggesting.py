"""The comparison of policies: nobody buys what is asked, budgets are kept, and a law that is known is learned sooner."""

from __future__ import annotations

import numpy as np
import pytest

from domain.performance.roofline import OPERATOR_CLASSES
from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.suggesting.suggestion import run_seconds
from research.suggesting import BUDGETS, POLICIES, Field, compared, simulated

FAMILIES, MEMBERS = 24, 6


@pytest.fixture(scope="module")
def table() -> Table:
    """A device that is slow at what one family in six is made of; that family's models are all alike."""
    random = np.random.default_rng(5)
    count = FAMILIES * MEMBERS
    family = np.repeat([f"f{index:02}" for index in range(FAMILIES)], MEMBERS)
    odd = np.arange(count) // MEMBERS % 6 == 0
    mix = random.dirichlet(np.ones(3) * 5, count) @ np.eye(3, len(OPERATOR_CLASSES))
    mix[odd] = np.eye(len(OPERATOR_CLASSES))[-1]
    names = (*(f"time_share.{name}" for name in OPERATOR_CLASSES), "balance", "log_prior")
    residual = np.where(odd, 1.5, 0.4) + 0.05 * random.normal(size=count)
    prior = np.exp(random.normal(-4, 1, count))
    return Table(
        target="latency",
        rows=[
            Row(model=f"m{index}", hardware="acme-one", platform="cuda", precision="fp16", batch_size=1)
            for index in range(count)
        ],
        names=names,
        values=np.column_stack([mix, random.normal(size=count), np.log(prior)]),
        prior=prior,
        measured=prior * np.exp(residual),
        subjects=[None] * count,
        limits=[None] * count,
        architecture=np.array([f"m{index}" for index in range(count)]),
        family=family,
    )


def offset(bought: Table, asked: Table) -> Array:
    return np.full(len(asked), np.mean(bought.residual) if len(bought) else 0.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_that_is_asked_is_bought_and_the_budget_is_kept(table: Table, policy: str) -> None:
    candidates, questions = np.arange(0, 70), np.arange(70, len(table))
    field = Field(table, table.prior, candidates, questions, np.random.default_rng(1), offset)
    bought = POLICIES[policy](field, 100.0, 10**6)
    assert bought
    assert set(bought) <= set(candidates.tolist())
    assert len(set(bought)) == len(bought)
    assert sum(run_seconds(table.prior[index]) for index in bought) <= 100.0
    assert len(POLICIES[policy](field, 1e9, 3)) == 3


def test_the_typical_teach_more_than_what_chance_brings(table: Table) -> None:
    found = simulated(table, offset, table.prior, "acme-one", 12)
    few = [one for one in found if one.budget == BUDGETS[2][2]]
    error = {policy: np.mean([one.error for one in few if one.policy == policy]) for policy in ("chosen", "random")}
    assert error["chosen"] < 0.9 * error["random"]
    lines = compared(found)
    assert len(lines) == 2 + len({one.budget for one in found})
    assert all(line.count("|") == lines[0].count("|") for line in lines)
