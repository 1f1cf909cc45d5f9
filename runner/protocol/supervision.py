"""A node beside the first: it starts its ranks, and tells the first node how one of them ended."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from domain.errors import ServiceUnavailable
from runner.campaign.discovery import Announcer
from runner.machine.processor import threads_allowed
from runner.measure.prepared_case import available
from runner.platforms.base import Rank
from runner.platforms.execution_options import read_options
from runner.protocol.nodes import connect
from runner.protocol.ranks import GO, LocalRanks, failed_key, node_key, node_report, require_ranks
from runner.protocol.tasks import Case, Failed

__all__ = ["follow_case"]


def follow_case(case: Case, speaker: Announcer) -> dict[str, Any]:
    """Have this node's ranks take part in a case until the first rank has done with them; return their indices.

    Raises ServiceUnavailable where the first node does not come. A rank that fails is the failure of the case, here and there.
    """
    nodes = case.nodes
    assert nodes
    speaker.reach("resolve")
    platform = available(case)
    options = read_options(case.options, platform=case.platform, names=platform.known_options)
    assert options.strategy
    require_ranks(case, platform, options)
    store = connect(nodes.hosts[0], nodes.port, nodes.wait_s)
    store.set(node_key(nodes.rank), msgspec.json.encode(node_report(case, platform)))
    try:
        store.wait([GO], timedelta(seconds=nodes.wait_s))
    except RuntimeError as error:
        raise ServiceUnavailable(
            f"node 0 ({nodes.hosts[0]}) ended before the ranks met, or another node did not come.",
            field="nodes",
            remedy="Node 0 says why.",
        ) from error
    speaker.reach("run")
    size = options.ranks // len(nodes.hosts)
    first = Rank(
        index=nodes.rank * size,
        size=options.ranks,
        port=nodes.port,
        strategy=options.strategy,
        host=nodes.hosts[0],
        nodes=len(nodes.hosts),
        wait_s=nodes.wait_s,
    )
    ranks = [msgspec.structs.replace(first, index=first.index + local) for local in range(size)]
    own = msgspec.structs.replace(case, threads=max(1, (case.threads or threads_allowed()) // size))

    def failed(failure: Failed) -> None:
        # Where the first node is gone, so is whoever would hear it.
        with suppress(RuntimeError):
            store.set(failed_key, msgspec.json.encode(failure))
        speaker.say(failure)

    local = LocalRanks(own, ranks, failed, verifying=False)
    local.join()
    return {"ranks": [rank.index for rank in ranks]}
