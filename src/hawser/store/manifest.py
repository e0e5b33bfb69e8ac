"""The manifest: a run's workflow, machine, tools and order of trials."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from hawser.spec.metric import depends_on_delay
from hawser.spec.model import Model
from hawser.spec.workflow import Labels

RunId = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}-[0-9]{8}T[0-9]{6}-[0-9a-f]{4}$")
]
"""`<workflow>-<UTC start>-<4 hex digits>`; also the name of the bundle's folder."""


def run_id(workflow: str, started: datetime, token: int) -> str:
    """Name a run.

    Args:
        workflow: the workflow's name.
        started: when it began; written in UTC.
        token: 16 random bits that distinguish runs started in the same second.
    """
    return f"{workflow}-{started:%Y%m%dT%H%M%S}-{token & 0xFFFF:04x}"


class Machine(Model):
    """The machine that the run was made on."""

    cpu: str
    """Model name of the first processor."""
    cores: int
    """Logical processors this process may run on."""
    memory: int
    """Bytes of main memory."""
    kernel: str
    distribution: str


class Revision(Model):
    """The source revision that the run was made with."""

    commit: str
    dirty: bool
    """Whether files differed from the commit."""


class TrialPlan(Model):
    """One place in the order of trials."""

    trial: Annotated[int, Field(ge=1)]
    variant: Labels
    repeat: Annotated[int, Field(ge=1)]


class Environment(Model):
    """The machine and the programs on it: results depend on them besides the workflow."""

    machine: Machine
    tools: dict[str, str] = {}
    """Program -> version as it prints it."""
    kernel: dict[str, str] = {}
    """Kernel setting -> value while the trials ran."""


class Session(Environment):
    """One process that carried out trials of a run."""

    started: AwareDatetime
    hawser: str
    """Version of this program."""
    revision: Revision | None = None
    """None where the program does not run from a git checkout."""


class Manifest(Model):
    """Everything needed to judge a run and to repeat it."""

    format: Literal[1] = 1
    """Version of the bundle's layout."""
    run: RunId
    workflow: str
    title: str
    hawser: str
    """Version of this program."""
    revision: Revision | None = None
    """None where the program does not run from a git checkout."""
    command: tuple[str, ...]
    """The command line that repeats it."""
    started: AwareDatetime
    finished: AwareDatetime | None = None
    state: Literal["running", "done", "failed"] = "running"
    problem: str | None = None
    """Why the run failed."""
    machine: Machine
    tools: dict[str, str] = {}
    """Program -> version as it prints it."""
    kernel: dict[str, str] = {}
    """Kernel setting -> value while the trials ran."""
    resumed: tuple[Session, ...] = ()
    """Sessions that resumed the run after it ended early; the fields above are the first one's."""
    against: RunId | None = None
    """The earlier run whose variants are interleaved, as a regression check."""
    seed: int
    order: tuple[TrialPlan, ...]
    """The trials in the order in which they are run."""


class Waited(Model):
    """What a trial waited for before it began, and what disturbed it from its beginning."""

    turn: float = 0.0
    """Seconds, for another measurement on the machine to end."""
    quiet: float = 0.0
    """Seconds, for other programs to leave the machine alone."""
    disturbed: str = ""
    """What other programs did all the same when the trial began; empty if little."""


class TrialRecord(Model):
    """`trial.json`: one finished trial."""

    trial: Annotated[int, Field(ge=1)]
    variant: Labels
    repeat: Annotated[int, Field(ge=1)]
    started: AwareDatetime
    finished: AwareDatetime
    valid: bool = True
    reason: str | None = None
    """Why a trial that is not valid is left out of statistics."""
    waited: Waited = Waited()
    """Before `started`."""
    late: bool = False
    """Whether it is void only for metrics that depend on delay, because packets were late."""

    def counts(self, metric: str) -> bool:
        """Whether the trial's values of this metric enter statistics."""
        return self.valid or (self.late and not depends_on_delay(metric))
