"""Train one predictor on several machines: LightGBM's sockets join their trees, and a control connection watches them.

Every machine reads the same position of the log and does the same training. Only the trees differ: each machine builds the
histograms of its own share of the rows, and LightGBM adds them up, so that all get the same trees. LightGBM itself waits
for ever where a machine ends, which is why every machine also keeps a connection to machine 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.errors import AssayError, ServiceUnavailable, UsageError
from predictor.features.dataset import Row
from predictor.features.features import FEATURES_VERSION
from predictor.learning import boosting

__all__ = ["MachineList", "Machines", "joined", "machine_list"]

MOST = 64
ROWS_EACH = 100
"""With fewer rows on a machine the trees of a fold are fitted whole on each."""
BEAT_S, LOST_S, LINK_S = 2.0, 30.0, 90.0
_LINE = 64 * 2**10
_DONE = "done"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
T = TypeVar("T")
Lost = Callable[[AssayError], None]
"""Ends the process: nothing else ends a wait of LightGBM for a machine that is gone."""


class MachineList(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a training, as HOST:PORT in the order of their ranks, and which of them this is."""

    machines: list[str]
    rank: int
    wait_s: float = 120.0

    def name(self, rank: int) -> str:
        """Return how messages name a machine."""
        return f"machine {rank} ({self.machines[rank]})"


def machine_list(text: str, rank: int | None, wait_s: float = 120.0) -> MachineList:
    """Return the machines that `HOST:PORT,HOST:PORT` names; without a rank, the entry that is an address of this machine.

    Raises UsageError naming the field for anything that is not a host name or IPv4 address with a port.
    """
    machines = [part.strip() for part in text.split(",")]
    if not 2 <= len(machines) <= MOST:
        raise _usage(f"{len(machines)} machines are named.", f"Name 2 to {MOST}: HOST:PORT,HOST:PORT.")
    for machine in machines:
        host, _, port = machine.rpartition(":")
        if not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
            raise _usage(f"{machine[:80]!r} is not HOST:PORT.", "Give a host name or an IPv4 address, and a port.")
    if len(set(machines)) < len(machines):
        raise _usage("a machine is named twice.", "Give each a port of its own.")
    if rank is None:
        here = [index for index, machine in enumerate(machines) if _is_here(machine)]
        if len(here) != 1:
            found = "none of the machines is" if not here else f"{len(here)} of the machines are"
            raise UsageError(f"{found} this one.", field="rank", remedy="Say which with --rank, the first is 0.")
        rank = here[0]
    if not 0 <= rank < len(machines):
        raise UsageError(f"there is no machine {rank}.", field="rank", remedy=f"0 to {len(machines) - 1}.")
    return MachineList(machines=machines, rank=rank, wait_s=wait_s)


def _usage(detail: str, remedy: str) -> UsageError:
    return UsageError(detail, field="machines", remedy=remedy)


def _is_here(machine: str) -> bool:
    """Return whether the host is an address of this machine."""
    try:
        with socket.socket() as probe:
            probe.bind((_address(machine)[0], 0))
    except (OSError, UsageError):
        return False
    return True


def _address(machine: str) -> tuple[str, int]:
    """Return a machine's IPv4 address, which is all that LightGBM's sockets know, and its port."""
    host, _, port = machine.rpartition(":")
    try:
        return socket.gethostbyname(host), int(port)
    except OSError as error:
        raise _usage(f"the host {host} is not known: {error.strerror}.", "Correct it, or give its address.") from error


class _Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of the control connection."""

    rank: int = -1
    same: str = ""
    """What must be the same on all machines: at first their list and versions, then what is fitted next."""
    position: int = -1
    failure: str = ""


class _Link:
    """A control connection: lines of JSON, and an empty line every two seconds as a sign of life."""

    def __init__(self, connection: socket.socket, name: str, lost: Callable[[str], None]) -> None:
        self.name = name
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lost = lost
        self._inbox: queue.Queue[_Message] = queue.Queue()
        self._sending = threading.Lock()
        self._open, self._done = True, False

    def read(self) -> _Message:
        """Return the next message; OSError where the connection ends or says something else."""
        while True:
            line = self._lines.readline(_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionResetError("it ended")
            if line != b"\n":
                try:
                    return msgspec.json.decode(line, type=_Message)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise ConnectionAbortedError("it sent no message of a training") from error

    def send(self, message: _Message | None = None) -> None:
        """Send a message, or a sign of life."""
        with self._sending:
            self._connection.sendall((b"" if message is None else msgspec.json.encode(message)) + b"\n")

    def watch(self) -> None:
        """Read and send signs of life in threads of their own from here on."""
        self._connection.settimeout(LOST_S)
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name="machines", daemon=True).start()

    def next(self) -> _Message:
        """Wait for a message that `watch` reads; whoever is lost ends the process."""
        return self._inbox.get()

    def close(self) -> None:
        """End the connection; that it ends is no loss any more."""
        self._open = False
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _listen(self) -> None:
        try:
            while not self._done:
                message = self.read()
                if message.failure:
                    self._tell(message.failure)
                    return
                self._done = message.same == _DONE
                self._inbox.put(message)
        except TimeoutError:
            self._tell(f"{self.name} has not answered for {LOST_S:.0f} s.")
        except OSError:
            self._tell(f"{self.name} ended before the training did.")

    def _beat(self) -> None:
        while self._open:
            time.sleep(BEAT_S)
            try:
                self.send()
            except OSError:
                return  # The reader says so.

    def _tell(self, sentence: str) -> None:
        if self._open and not self._done:
            self._lost(sentence)


class Machines:
    """The machines that train together, as one of them sees the others; machine 0 keeps what is made."""

    def __init__(self, own: MachineList, position: int, links: Sequence[_Link]) -> None:
        self.own = own
        self.position = position
        self.world = len(own.machines)
        self._links = links
        self._owners: dict[str, int] = {}
        # LightGBM keeps its network by thread: other trees of this process are fitted without it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="machines")
        self._network: Any = None

    def share(self, rows: Sequence[Row]) -> NDArray[np.intp] | None:
        """Return the indexes of the rows that this machine trains on; None where there are too few to share.

        The digest of a row decides whose it is, so that every machine knows all shares.
        """
        owners = np.array([self._owner(row) for row in rows], dtype=np.intp)
        if np.bincount(owners, minlength=self.world).min() < ROWS_EACH:
            return None
        return np.flatnonzero(owners == self.own.rank)

    def _owner(self, row: Row) -> int:
        name = row.event_id or repr(row)
        if name not in self._owners:
            self._owners[name] = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % self.world
        return self._owners[name]

    def fit(self, what: str, rows: Sequence[Row], work: Callable[[dict[str, Any]], T]) -> T:
        """Do a fit of trees on all machines at once; `work` gets the parameters that LightGBM needs for it."""
        names = "\n".join([what, *(row.event_id or repr(row) for row in rows)])
        self._agree(hashlib.sha256(names.encode()).hexdigest())
        if self._network is None:
            self._link()
        parameters = {"tree_learner": "data", "num_machines": self.world, "pre_partition": True}
        try:
            return self._thread.submit(work, parameters).result()
        except boosting.lightgbm.basic.LightGBMError as error:
            raise _unavailable(f"LightGBM on {self.own.name(self.own.rank)}: {error}.") from error

    def _agree(self, same: str) -> None:
        """Wait until every machine is about to do the same; ServiceUnavailable names the one that would not."""
        if self.own.rank:
            self._links[0].send(_Message(same=same))
            self._links[0].next()
            return
        for link in self._links:
            if link.next().same != same:
                raise _unavailable(f"{link.name} has other rows than {self.own.name(0)} at the same position.")
        for link in self._links:
            link.send(_Message(same=same))

    def _link(self) -> None:
        """Connect LightGBM on all machines. Machine 0 is asked by none of the others, so any free port will do there."""
        port = _free_port() if not self.own.rank else _address(self.own.machines[self.own.rank])[1]
        addresses = ["{}:{}".format(*_address(machine)) for machine in self.own.machines]
        addresses[self.own.rank] = f"127.0.0.1:{port}"
        self._network = _stump()
        minutes = max(1, round(LINK_S / 60))
        linked = self._thread.submit(self._network.set_network, ",".join(addresses), port, minutes, self.world)
        try:
            linked.result(timeout=LINK_S)
        except (TimeoutError, boosting.lightgbm.basic.LightGBMError) as error:
            raise _unavailable(
                f"LightGBM on {self.own.name(self.own.rank)} could not connect to the others within {LINK_S:.0f} s."
            ) from error

    def fail(self, error: AssayError) -> None:
        """Tell the other machines that this one cannot go on."""
        for link in self._links:
            try:
                link.send(_Message(failure=f"{self.own.name(self.own.rank)} gave up: {error.detail}"))
            except OSError:
                continue

    def close(self) -> None:
        """Leave once every machine is done, machine 0 first: a port that others were connected to stays free for the next."""
        if self.own.rank:
            self._links[0].send(_Message(same=_DONE))
            self._links[0].next()
            self._free()
        else:
            for link in self._links:
                link.next()
            self._free()
            for link in self._links:
                link.send(_Message(same=_DONE))
        for link in self._links:
            link.close()
        self._thread.shutdown()

    def _free(self) -> None:
        if self._network is not None:
            self._thread.submit(self._network.free_network).result()


def _unavailable(detail: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        detail, field="machines", remedy="See that each can reach the others' ports, and start all of them again."
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _stump() -> Any:
    """Return a booster to hold the network: LightGBM has it on no other object."""
    settings = {"verbose": -1, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 2, "num_threads": 1}
    return boosting.lightgbm.train(
        settings, boosting.lightgbm.Dataset(np.arange(8.0)[:, None], np.arange(8.0), params=settings), 1
    )


@contextlib.contextmanager
def joined(own: MachineList, version: str, position: int, lost: Lost, *, exact: bool = False) -> Iterator[Machines]:
    """Meet the other machines, and give them with the position that all of them have tables of.

    It is the lowest of the positions, or with `exact`, machine 0's. Raises ServiceUnavailable for a machine that does not
    come within `wait_s`, runs another version or has not got that far. Later `lost` is called with what happened to one,
    and an error of this machine ends the training of the others.
    """
    _require_port(own)
    same = f"{version} {FEATURES_VERSION} {boosting.lightgbm.__version__} {','.join(own.machines)}"
    meet = _gather if own.rank == 0 else _join
    machines = meet(own, _Message(rank=own.rank, same=same, position=position), lost, exact)
    try:
        yield machines
    except AssayError as error:
        machines.fail(error)
        raise
    machines.close()


def _require_port(own: MachineList) -> None:
    """Raise ServiceUnavailable where something listens on this machine's port; wait while an ended training holds it."""
    port = _address(own.machines[own.rank])[1]
    until = time.monotonic() + own.wait_s
    while True:
        try:
            for reuse in (True, False) if own.rank else (True,):  # LightGBM does not set SO_REUSEADDR.
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                    probe.bind(("", port))
        except OSError as error:
            if reuse or time.monotonic() > until:
                raise ServiceUnavailable(
                    f"port {port} of {own.name(own.rank)} is taken: {error.strerror}.",
                    field="machines",
                    remedy="Stop what listens there, or name another port on every machine.",
                ) from error
            time.sleep(1.0)
        else:
            return


def _gather(own: MachineList, hello: _Message, lost: Lost, exact: bool) -> Machines:
    """Wait for all other machines, as machine 0."""
    links: dict[int, _Link] = {}
    positions = {0: hello.position}
    until = time.monotonic() + own.wait_s

    def leave(sentence: str) -> ServiceUnavailable:
        error = _unavailable(sentence)
        Machines(own, hello.position, list(links.values())).fail(error)
        return error

    def gone(sentence: str) -> None:
        lost(leave(sentence))

    with socket.create_server(("", _address(own.machines[0])[1])) as server:
        while len(links) < len(own.machines) - 1:
            server.settimeout(max(0.1, until - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                missing = [own.name(rank) for rank in range(1, len(own.machines)) if rank not in links]
                raise leave(f"{' and '.join(missing)} did not come within {own.wait_s:g} s.") from None
            connection.settimeout(5.0)
            link = _Link(connection, "", gone)
            try:
                message = link.read()
            except OSError:
                link.close()  # Something else that looks for open ports.
                continue
            if message.rank in links or not 0 < message.rank < len(own.machines):
                link.close()
                continue
            link.name = own.name(message.rank)
            links[message.rank], positions[message.rank] = link, message.position
            if message.same != hello.same:
                raise leave(f"{link.name} was started otherwise: {message.same[:500]!r}, not {hello.same!r}.")
    position = hello.position if exact else min(positions.values())
    behind = [own.name(rank) for rank, reached in positions.items() if reached < position]
    if behind:
        raise leave(f"{behind[0]} has no tables of position {position} yet.")
    for link in links.values():
        link.send(_Message(position=position))
        link.watch()
    return Machines(own, position, [links[rank] for rank in sorted(links)])


def _join(own: MachineList, hello: _Message, lost: Lost, exact: bool) -> Machines:  # noqa: ARG001 - machine 0 decides
    """Connect to machine 0, as one of the others, and wait until all are there."""
    until = time.monotonic() + own.wait_s
    while True:
        try:
            connection = socket.create_connection(_address(own.machines[0]), timeout=5.0)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise _unavailable(f"{own.name(0)} did not come within {own.wait_s:g} s.") from error
            time.sleep(0.2)
    link = _Link(connection, own.name(0), lambda sentence: lost(_unavailable(sentence)))
    # Machine 0 waits as long as this one for those that come later.
    connection.settimeout(own.wait_s + LOST_S)
    try:
        link.send(hello)
        welcome = link.read()
    except OSError as error:
        raise _unavailable(f"{own.name(0)} ended before all machines had come.") from error
    if welcome.failure:
        raise _unavailable(welcome.failure)
    link.watch()
    return Machines(own, welcome.position, [link])
