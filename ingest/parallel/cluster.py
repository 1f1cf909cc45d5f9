"""Ranges of the log folded on the nodes of a Ray cluster; a node that dies is replaced by another."""

from __future__ import annotations

import contextlib
import platform
import socket
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from domain.errors import AssayError, PartMissing, ServiceUnavailable, UsageError, error_document, error_of
from ingest.parallel.ranges import LogAddress, RangeTask, fold_range

__all__ = ["Cluster", "cluster"]

_ATTEMPTS = 3
_CONNECT_S = 10.0


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """Connect to the Ray cluster at an address (`auto`: the one of this machine), and leave it again."""
    try:
        import ray
    except ImportError as error:
        raise PartMissing(
            f"Ray is not installed for this Python ({platform.python_version()}).",
            field="ray",
            remedy="pip install 'assay-bench[ray]', in the version that the cluster runs; or use --workers.",
        ) from error
    _require_listener(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", namespace="assay")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _refused(address, error) from error
    try:
        yield Cluster(ray, address)
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Raise where nothing listens at an address with a port: Ray itself would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise _refused(address, error) from error


def _refused(address: str, error: Exception) -> AssayError:
    said = " ".join(str(error).split())[:400]
    if "mismatch" in said.lower():
        return UsageError(
            f"the cluster at {address} runs another Ray or Python than this one (Ray {metadata.version('ray')}, "
            f"Python {platform.python_version()}): {said}",
            field="ray",
            remedy="Use the same versions of both on the cluster and here.",
        )
    return ServiceUnavailable(
        f"no Ray cluster answers at {address}: {said}",
        field="ray",
        remedy="Look at `ray status --address`; the address is that of the head, with its port (6379).",
    )


class Cluster:
    """The nodes of a connected cluster: one range a processor that it has free, in tasks that Ray repeats elsewhere."""

    threads = 1

    def __init__(self, ray: Any, address: str) -> None:
        self._ray = ray
        self._address = address
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def fold(self, tasks: Sequence[RangeTask]) -> None:
        """Fold each task into the file at its path; how often Ray began one again it does not tell."""
        ray = self._ray
        self._require_reachable(tasks[0].log)
        remote = ray.remote(num_cpus=1, max_retries=_ATTEMPTS - 1)(fold_away)
        waiting = {remote.remote(task): task for task in tasks}
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                document, content = ray.get(done)
                task = waiting.pop(done)
                if document is not None:
                    raise error_of(document)
                Path(task.path).write_bytes(content)
        except ray.exceptions.RayError as error:
            raise ServiceUnavailable(
                f"the Ray cluster at {self._address} lost a range {_ATTEMPTS} times: {str(error).splitlines()[0][:300]}",
                field="ray",
                remedy="Look at the memory of its nodes with `ray status` and `ray memory`, or use --workers.",
            ) from error
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)

    def _require_reachable(self, log: LogAddress) -> None:
        """Raise where nodes on other machines would have to use a socket of this one."""
        hosts = {node["NodeManagerHostname"] for node in self._ray.nodes() if node["Alive"]}
        if "host=/" in log.uri and len(hosts) > 1:
            raise UsageError(
                f"the log is in the embedded Postgres, which only this machine reaches, and the cluster has {len(hosts)}.",
                field="ray",
                remedy="Move the log to a Postgres that every node reaches (ASSAY_DATABASE_URL), or use --workers.",
            )


def fold_away(task: RangeTask) -> tuple[dict[str, str | None] | None, bytes]:
    """Fold a range on a node, and return the problem or the file."""
    with tempfile.TemporaryDirectory(prefix="assay-range-") as folder:
        path = Path(folder) / "range.duckdb"
        try:
            fold_range(task, path)
        except AssayError as error:
            return error_document(error), b""
        return None, path.read_bytes()
