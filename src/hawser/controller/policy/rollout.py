"""Staged roll-outs: which gateways have a new version already, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import Rollout, Version
from hawser.controller.errors import Conflict, Invalid, NotFound
from hawser.controller.policy import version
from hawser.controller.policy.judgement import Judgement, Stage, Verdict
from hawser.spec.network import Network
from hawser.spec.validate import Issue


class State(StrEnum):
    """State of a roll-out."""

    RUNNING = "running"
    DONE = "done"
    """All gateways should have the new version."""
    RETURNED = "returned"
    """The version before is in force again."""


@dataclass(frozen=True)
class Wanted:
    """How a version is to be rolled out."""

    canary: tuple[str, ...]
    """Branches whose gateways get it first."""
    observe: timedelta
    """How long gateways have to be well before the next ones get it."""


def rollouts(session: Session, limit: int) -> Sequence[Rollout]:
    """Give roll-outs, the newest first."""
    return session.scalars(select(Rollout).order_by(Rollout.number.desc()).limit(limit)).all()


def by_number(session: Session, number: int) -> Rollout:
    """Give a roll-out.

    Raises:
        NotFound: there is none.
    """
    found = session.get(Rollout, number)
    if found is None:
        raise NotFound(f"there is no roll-out {number}")
    return found


def running(session: Session) -> Rollout | None:
    """Give the roll-out that is running; there is at most one."""
    return session.scalar(select(Rollout).where(Rollout.state == State.RUNNING))


def moved(rollout: Rollout) -> frozenset[str]:
    """Give the branches whose gateways should have the new version."""
    return frozenset(name for names in rollout.stages[: rollout.stage + 1] for name in names)


def begin(
    session: Session,
    who: Principal,
    now: datetime,
    made: Version,
    base: Version,
    wanted: Wanted,
    reached: Mapping[str, Sequence[str]],
) -> Rollout | None:
    """Begin the roll-out of a version that was just added; None if nothing was changed.

    Args:
        session: of `Database.write`, the one that has added the version.
        who: its author.
        now: the time.
        made: the new version.
        base: the version before.
        wanted: how it is rolled out.
        reached: branches that each connected gateway reaches now, by branch.

    Raises:
        Invalid: the canary is no branch, or the change cannot be made in stages.
    """
    if made.number == base.number:
        return None
    old, new = version.network_of(base.document), version.network_of(made.document)
    if issues := [*_unknown(wanted, new), *_inseparable(old, new)]:
        raise Invalid(issues)
    rest = [name for name in new.overlay.branches if name not in wanted.canary]
    rollout = Rollout(
        number=(session.scalar(select(func.max(Rollout.number))) or 0) + 1,
        version=made.number,
        base=base.number,
        stages=[stage for stage in (list(dict.fromkeys(wanted.canary)), rest) if stage],
        stage=0,
        observe_s=wanted.observe.total_seconds(),
        author=str(who),
        started=now,
        since=now,
        reached={branch: list(names) for branch, names in reached.items()},
        ailing={},
        state=State.RUNNING.value,
    )
    session.add(rollout)
    session.flush()
    after = {"version": made.number, "stages": rollout.stages}
    audit.record(session, who, now, "rollout.begin", f"roll-out {rollout.number}", after=after)
    return rollout


def _unknown(wanted: Wanted, network: Network) -> list[Issue]:
    message = "found {}, expected a branch of the network"
    return [
        Issue(("rollout", "canary", index), message.format(name))
        for index, name in enumerate(wanted.canary)
        if name not in network.overlay.branches
    ]


def _inseparable(old: Network, new: Network) -> list[Issue]:
    """Find what all gateways have to change together."""
    return [
        Issue(
            ("rollout",),
            f"overlay.{field} cannot be changed in stages: gateways with different ones do not"
            " understand each other",
        )
        for field in ("transport", "encryption", "switch", "label_bits")
        if old.overlay.branches and getattr(old.overlay, field) != getattr(new.overlay, field)
    ]


def stage_of(rollout: Rollout) -> Stage:
    """Give what the judge has to know."""
    return Stage(
        since=rollout.since,
        observe=timedelta(seconds=rollout.observe_s),
        reached={branch: frozenset(names) for branch, names in rollout.reached.items()},
        settled=rollout.settled,
        ailing={name: datetime.fromisoformat(time) for name, time in rollout.ailing.items()},
    )


def follow(
    session: Session, who: Principal, now: datetime, rollout: Rollout, by: Judgement
) -> None:
    """Carry out a judgement.

    Args:
        session: of `Database.write`.
        who: the controller itself.
        now: the time.
        rollout: a running one.
        by: the judgement.
    """
    if by.verdict is Verdict.RETURN:
        give_back(session, who, now, rollout, by.reason)
        return
    rollout.settled = by.settled
    rollout.ailing = {name: time.isoformat() for name, time in (by.ailing or {}).items()}
    if by.verdict is Verdict.NEXT and rollout.stage + 1 < len(rollout.stages):
        rollout.stage, rollout.since, rollout.settled = rollout.stage + 1, now, None
    elif by.verdict is Verdict.NEXT:
        finish(session, who, now, rollout)


def give_back(
    session: Session, who: Principal, now: datetime, rollout: Rollout, reason: str
) -> Version:
    """End a roll-out by putting the version before in force again, as a new one.

    Raises:
        Conflict: it has ended.
    """
    _end(rollout, now, State.RETURNED)
    rollout.detail = reason
    session.flush()
    why = f"return from roll-out {rollout.number}: {reason}"
    made = version.restore(session, who, now, rollout.base, why)
    rollout.returned_by = made.number
    after = {"version": made.number, "reason": reason}
    audit.record(session, who, now, "rollout.return", f"roll-out {rollout.number}", after=after)
    return made


def finish(session: Session, who: Principal, now: datetime, rollout: Rollout) -> None:
    """End a roll-out: all gateways get the new version, and nothing returns by itself any more.

    Raises:
        Conflict: it has ended.
    """
    _end(rollout, now, State.DONE)
    session.flush()
    audit.record(session, who, now, "rollout.finish", f"roll-out {rollout.number}")


def _end(rollout: Rollout, now: datetime, state: State) -> None:
    if rollout.state != State.RUNNING:
        raise Conflict(f"roll-out {rollout.number} has ended: it is {rollout.state}")
    rollout.state, rollout.finished = state.value, now
    rollout.reached, rollout.ailing = {}, {}  # with many branches, megabytes that nobody needs now
