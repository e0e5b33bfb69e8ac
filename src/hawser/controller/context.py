"""What the parts of one controller share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hawser.controller.access.limit import RateLimit
from hawser.controller.access.vault import Vault
from hawser.controller.db.database import Database
from hawser.controller.inventory.gateway import Signer
from hawser.controller.jobs.openflow import SwitchControl
from hawser.controller.jobs.paths import Planned
from hawser.controller.jobs.watch import Watch
from hawser.controller.paths.trains import Trains
from hawser.controller.paths.whatif import WhatIf
from hawser.controller.telemetry.exposition import Exposition
from hawser.controller.telemetry.latest import Latest
from hawser.controller.telemetry.others import Others
from hawser.store.statistics.store import StatisticsStore


@dataclass(frozen=True)
class Context:
    """One controller at work."""

    instance: str
    """This process, among all of all controllers."""
    database: Database
    signer: Signer
    vault: Vault
    known: RateLimit
    """Of requests by users and API keys."""
    unknown: RateLimit
    """Of requests without authentication, or with a wrong one, by address."""
    logins: RateLimit
    """Of logins at an OpenID provider that begin, by address."""
    clock: Callable[[], datetime]
    watch: Watch
    latest: Latest
    statistics: StatisticsStore
    exposition: Exposition
    planned: Planned
    """What was decided last on paths."""
    trains: Trains
    """Tunnels that gateways measure."""
    whatif: WhatIf
    """Answers what would be if."""
    others: Others
    """The other controllers, which have statistics of other gateways."""
    switches: SwitchControl
    """OpenFlow switches that are connected to this controller."""
    gateways_port: int
    """TCP port to which gateways connect."""
    changed: Callable[[], None] = lambda: None
    """Told of every change, so that gateways need not wait until the database is looked at."""

    def close(self) -> None:
        """Close database and statistics, and end the process of questions."""
        self.whatif.stop()
        self.statistics.close()
        self.database.close()
