"""Applying configurations: tried, then kept or returned from. Survives the end of the agent.

`good.json` is written only when a configuration is kept. An agent that is killed during a trial
finds the older one there when it starts again, and puts it back in force.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from hawser.agent.bridge import GatewayBridge
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.state import Kept, StateDirectory
from hawser.agent.steering import Chains, UnreachedError
from hawser.agent.trial import Trial, Verdict
from hawser.control.client import ControlError
from hawser.control.link import Configure, Confirm, FromGateway, Outcome, Trying
from hawser.overlay.config.gateway import GatewayConfig

_log = logging.getLogger(__name__)


class Applier:
    """Has at most one configuration on trial. `advance` is called a few times a second."""

    def __init__(
        self,
        state: StateDirectory,
        daemon: GatewayDaemon,
        chains: Chains,
        bridge: GatewayBridge,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._daemon = daemon
        self._chains = chains
        self._bridge = bridge
        self._clock = clock
        self.good = state.good()
        self._tried: Kept | None = None
        self._trial: Trial | None = None
        self._outcome: Outcome | None = None
        """Not yet sent."""

    def restore(self) -> None:
        """Put the good configuration in force, where the daemon has another or does not run."""
        if self.good is None or self._trial is not None:
            return
        try:
            self._put(self.good, kept=True)
        except ControlError as error:
            _log.error("the last good configuration cannot be put in force: %s", error)

    def refresh(self) -> None:
        """Put back what the kernel has dropped of a configuration."""
        self._chains.refresh()
        self._bridge.refresh()

    def _put(self, wanted: Kept, *, kept: bool = False) -> GatewayConfig:
        """Put a configuration in force.

        A function that a new one names has to be reached. That of one that was kept may be away,
        such as after a reboot: its classes wait for it, the others do not.

        Raises:
            ControlError: the daemon, or the kernel, does not take it.
            ValueError: it is none.
        """
        config, steering = wanted.config(), wanted.steering()
        # Before the daemon, which has the ports behind it.
        self._bridge.apply(wanted.bridge(), wanted.digest, install=kept)
        if steering is not None:  # before packets pass
            try:
                self._chains.apply(config, steering)
            except UnreachedError as error:
                if not kept:
                    raise
                _log.error("%s", error)
        self._daemon.apply(config)
        if steering is None:
            self._chains.apply(config, None)
        return config

    def configure(self, message: Configure) -> None:
        """Try a configuration."""
        if self._tried is not None and self._tried.digest == message.digest:
            return  # the connection was made again meanwhile
        self._outcome = None
        if self.good is not None and self.good.digest == message.digest:
            if self._tried is not None:
                self._tried, self._trial = None, None
                self.restore()
            self._outcome = _kept(self.good)
            return
        tried = Kept(version=message.version, digest=message.digest, document=message.document)
        before = self._daemon.status()
        try:
            config = self._put(tried)
        except (ControlError, ValueError) as error:
            self._give_up(tried, "refused", str(error))
            return
        _log.info("trying version %s (%s)", message.version, message.digest[:12])
        peers = [peer.branch for peer in config.peers]
        self._tried = tried
        self._trial = Trial.begin(self._clock(), before, peers, message.expected)

    def confirm(self, message: Confirm) -> None:
        """Note that the controller has confirmed a configuration."""
        if self._tried is not None and self._trial and self._tried.digest == message.digest:
            self._trial.confirmed = True

    def advance(self) -> FromGateway | None:
        """Look after the trial; give what the controller should be told, again and again."""
        if self._trial is None or self._tried is None:
            return self._outcome
        verdict = self._trial.judge(self._clock(), self._daemon.status())
        if verdict is Verdict.ASK:
            return Trying(digest=self._tried.digest)
        if verdict is Verdict.KEEP:
            self._keep(self._tried)
        elif verdict is Verdict.RETURN:
            self._give_up(self._tried, "returned", self._trial.reason)
        return self._outcome

    def note_sent(self, message: FromGateway) -> None:
        """Note that a message has reached the controller."""
        if message is self._outcome:
            self._outcome = None

    def _keep(self, tried: Kept) -> None:
        self._state.keep(tried)
        _log.info("keeping version %s", tried.version)
        self.good, self._tried, self._trial = tried, None, None
        self._outcome = _kept(tried)

    def _give_up(self, tried: Kept, result: str, reason: str) -> None:
        _log.warning("version %s: %s: %s", tried.version, result, reason)
        self._tried, self._trial = None, None
        if self.good is None:
            self._daemon.stop()
            self._remove(tried)
        else:
            self.restore()
        self._outcome = Outcome.model_validate(
            {
                "digest": tried.digest,
                "version": tried.version,
                "result": result,
                "detail": reason[:2000],
            }
        )

    def _remove(self, tried: Kept) -> None:
        with contextlib.suppress(ControlError, ValueError):
            self._chains.apply(tried.config(), None)
        with contextlib.suppress(ControlError):
            self._bridge.apply(None, install=False)


def _kept(kept: Kept) -> Outcome:
    return Outcome(digest=kept.digest, version=kept.version, result="kept")
