"""Attacks and benign sessions beside a trial's measurements, from their begin to the label file."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from hawser.driver.base import Lab
from hawser.node.base import Node, NodeError
from hawser.probe.attacks import attackers, clients, servers
from hawser.probe.attacks.attackers import Attack, Tools
from hawser.probe.attacks.command import ended, last_words, running, said, sent
from hawser.probe.attacks.host import Host, Stopped
from hawser.probe.attacks.recorder import Pair, Recorder
from hawser.probe.attacks.schedule import Episode, Free, episodes, seeded
from hawser.probe.base import ProbeError
from hawser.spec.attack import GUARD_SECONDS, Application, Attacks
from hawser.store.sample import Sample

_POLL_SECONDS: Final = 0.2
_LEAST_SENT: Final = 3
"""Packets that every attack sends."""
_FOLDER: Final = "attacks"


def tools(attacks: Attacks | None) -> tuple[str, ...]:
    """Programs that attacks and benign sessions need on nodes, each once."""
    if attacks is None:
        return ()
    every = (*attackers.programs(attacks.kinds), *clients.programs(attacks.benign))
    return tuple(dict.fromkeys(every))


@contextmanager
def attacking(lab: Lab, attacks: Attacks | None, raw: Path) -> Iterator[Traffic | None]:
    """Attack while the block runs; `raw/labels.csv` says who did what when.

    Raises:
        ProbeError: a node has no address in the lab, or a server did not get ready.
        NodeError: a program cannot be started.
    """
    if attacks is None:
        yield None
        return
    made = Traffic(lab, attacks, raw)
    with ExitStack() as stack:
        wanted = servers.needed(attacks.kinds, attacks.benign)
        made.prepare()
        for place in made.places():
            stack.enter_context(servers.serving(place, wanted))
        stack.callback(made.stop)
        made.start()
        yield made


class Traffic:
    """All traffic of one trial that has labels: a thread for each host's attacks and application.

    Targets are nodes of the lab, at the addresses of its plan: there is no other way to name one.
    """

    def __init__(self, lab: Lab, attacks: Attacks, raw: Path) -> None:
        """Take addresses from the plan and draw all attacks.

        Raises:
            ProbeError: a node has no address in the lab.
        """
        self._lab = lab
        self._attacks = attacks
        self._raw = raw
        self._addresses = {n: _address(lab, n) for n in (*attacks.source, *attacks.target)}
        self._episodes = episodes(attacks)
        self._stop = threading.Event()
        self._hosts = {name: Host(self._stop) for name in attacks.source}
        self._recorder = Recorder()
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []
        self._began = 0.0

    def places(self) -> Iterator[servers.Place]:
        """Give where servers run."""
        for name in self._attacks.target:
            node, address = self._lab.nodes[name], self._addresses[name]
            yield servers.Place(node, address, self._folder(name), self._attacks.seed)

    def prepare(self) -> None:
        """Give hosts their files, and hosts and servers the key to log in with.

        Raises:
            NodeError: a node refuses.
        """
        for name in self._attacks.source:
            for file, content in clients.files(self._chance(name, "files")).items():
                self._lab.nodes[name].put(self._folder(name) / file, content)
        if Application.SSH in self._attacks.benign:
            self._share_keys()

    def _share_keys(self) -> None:
        first = self._lab.nodes[self._attacks.source[0]]
        keys = servers.client_key(first, self._folder("keys"))
        for name in self._attacks.source:
            self._lab.nodes[name].put(self._folder(name) / "client", keys.private)
        for name in self._attacks.target:
            self._lab.nodes[name].put(self._folder(name) / "client.pub", keys.public)

    def start(self) -> None:
        """Begin."""
        (self._raw / _FOLDER).mkdir(exist_ok=True)
        self._began = time.monotonic()
        for host in self._attacks.attacking:
            self._begin(f"attacks of {host}", partial(self._attack_all, host))
        for host in self._attacks.clients:
            for application in self._attacks.benign:
                self._begin(f"{application} of {host}", partial(self._use, host, application))

    def finish(self, sleep: Callable[[float], None], stage: Callable[[str], None]) -> list[Sample]:
        """Wait until all is over.

        Args:
            sleep: waits, or ends by an exception.
            stage: is told how far it is.

        Raises:
            ProbeError: an attack could not be made.
        """
        made = -1
        while any(thread.is_alive() for thread in self._threads) and not self._errors:
            if made != (made := self._recorder.attacks):
                stage(f"attacks ({made} of {len(self._episodes)})")
            sleep(_POLL_SECONDS)
        self.stop()
        if self._errors:
            raise ProbeError(self._errors[0])
        return self._recorder.samples()

    def stop(self) -> None:
        """End all that still runs, and write the label file. Idempotent."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._recorder.write(self._raw)

    def _begin(self, what: str, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                work()
            except Stopped:
                return
            except (NodeError, ProbeError, OSError) as error:
                self._errors.append(f"{what}: {error}")
                self._stop.set()

        thread = threading.Thread(target=body, name=what)
        thread.start()
        self._threads.append(thread)

    def _attack_all(self, host: str) -> None:
        """Make the attacks of a host, one after the other."""
        for episode in self._episodes:
            if episode.source == host:
                self._until(episode.quiet[0])
                with self._hosts[host].alone():
                    self._until(episode.begin)
                    pair = self._pair(episode.source, episode.target)
                    with self._recorder.attack(pair, episode.kind, _tool(episode)):
                        self._attack(episode)
                        # Packets still under way are the attack's too.
                        self._sleep(GUARD_SECONDS)

    def _attack(self, episode: Episode) -> None:
        node = self._lab.nodes[episode.source]
        folder = self._folder(f"{episode.source}-{episode.name}")
        attack = Attack(
            self._addresses[episode.target],
            episode.seconds,
            self._attacks.packet_rate,
            seeded(episode.seed),
        )
        chosen = attackers.tools_of(episode.kind, attack)
        for name, content in chosen.files.items():
            node.put(folder / name, content)
        before, log = sent(node), folder / "log"
        with running(node, chosen.command, folder, log) as process:
            until = time.monotonic() + episode.seconds
            with suppress(NodeError):
                self._then(node, chosen, folder, until)
            ended(process, until, self._stop)
        (self._raw / _FOLDER / f"{episode.name}.txt").write_bytes(said(node, log))
        if sent(node) - before < _LEAST_SENT and not self._stop.is_set():
            raise ProbeError(f"{episode.kind} sent nothing{last_words(node, log)}")

    def _then(self, node: Node, chosen: Tools, folder: Path, until: float) -> None:
        """Run the second command of an attack, once the first one has made its interface."""
        if not chosen.then:
            return
        while chosen.interface not in node.counters():
            if time.monotonic() > until:
                return
            self._sleep(_POLL_SECONDS)
        with running(node, chosen.then, folder, folder / "then") as process:
            ended(process, until, self._stop)

    def _use(self, host: str, application: Application) -> None:
        """Have one session of an application after the other, until the time is over."""
        chance = self._chance(host, application)
        free = Free(self._episodes, host, float(self._attacks.duration))
        while not self._stop.is_set():
            target = chance.choice(self._attacks.target)
            folder = self._folder(host)
            one = clients.session(application, self._addresses[target], folder, chance)
            begin = free.begin(self._now() + one.think, one.seconds)
            if begin is None:
                return
            self._until(begin)
            with self._hosts[host].benign():
                self._session(host, target, one)

    def _session(self, host: str, target: str, one: clients.Session) -> None:
        node, folder = self._lab.nodes[host], self._folder(host)
        log = folder / f"{one.application}.log"
        with self._recorder.session(self._pair(host, target), one.application, one.port):
            with running(node, one.command, folder, log) as process:
                in_time = ended(process, time.monotonic() + one.seconds, self._stop)
            if not self._stop.is_set() and (not in_time or process.wait() != 0):
                self._recorder.failed()

    def _pair(self, source: str, target: str) -> Pair:
        return Pair(self._addresses[source], self._addresses[target])

    def _folder(self, name: str) -> Path:
        """Give the folder of a node's files on the node."""
        return next(iter(self._lab.nodes.values())).directory / _FOLDER / name

    def _chance(self, host: str, what: str) -> random.Random:
        return seeded(f"{self._attacks.seed}/{host}/{what}")

    def _now(self) -> float:
        """Seconds since the begin of all."""
        return time.monotonic() - self._began

    def _until(self, moment: float) -> None:
        self._sleep(moment - self._now())

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(max(0.0, seconds)):
            raise Stopped


def _tool(episode: Episode) -> str:
    return attackers.PROGRAMS[episode.kind][0]


def _address(lab: Lab, node: str) -> str:
    address = lab.plan.addresses.get(node)
    if node not in lab.nodes or address is None:
        raise ProbeError(f"{node!r} is not in lab {lab.name}")
    return str(address)
