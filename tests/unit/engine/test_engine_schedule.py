"""The order of trials: fair, repeatable, and nothing done twice."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hawser.engine.schedule import ATTEMPTS, Progress, order
from hawser.store.manifest import TrialPlan

VARIANTS = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


def labelled(names: list[str]) -> list[dict[str, str]]:
    return [{"v": name} for name in names]


@given(VARIANTS, st.integers(1, 8), st.integers(0, 2**63 - 1))
def test_each_block_is_a_permutation_of_all_variants(
    names: list[str], repeat: int, seed: int
) -> None:
    trials = order(labelled(names), repeat, seed)
    assert [trial.trial for trial in trials] == list(range(1, len(names) * repeat + 1))
    for block in range(repeat):
        part = trials[block * len(names) : (block + 1) * len(names)]
        assert sorted(trial.variant["v"] for trial in part) == sorted(names)
        assert {trial.repeat for trial in part} == {block + 1}


@given(VARIANTS, st.integers(1, 8), st.integers(0, 1000))
def test_the_seed_decides(names: list[str], repeat: int, seed: int) -> None:
    assert order(labelled(names), repeat, seed) == order(labelled(names), repeat, seed)


def test_blocks_differ() -> None:
    trials = order(labelled(list("abcdef")), 20, 1)
    blocks = {tuple(t.variant["v"] for t in trials[i * 6 : i * 6 + 6]) for i in range(20)}
    assert len(blocks) > 10


def outcome(progress: Progress, trial: int, *, valid: bool) -> Progress:
    return Progress(progress.planned, {**progress.valid, trial: valid}, progress.forgiven)


def test_what_is_finished_is_not_pending() -> None:
    planned = order(labelled(["a", "b"]), 2, 1)
    left = Progress(planned, {1: True, 3: False}).pending()
    assert [trial.trial for trial in left] == [2, 4]


def test_a_void_trial_is_put_at_the_end_with_a_new_number() -> None:
    planned = order(labelled(["a", "b"]), 2, 1)
    done = Progress(planned, {1: True, 2: False, 3: True, 4: True})
    (again,) = done.retries()
    assert again.trial == 5
    assert (again.variant, again.repeat) == (planned[1].variant, planned[1].repeat)


def test_a_trial_is_not_retried_while_its_retry_is_pending() -> None:
    planned = order(labelled(["a"]), 1, 1)
    again = Progress(planned, {1: False}).retries()
    assert not Progress((*planned, *again), {1: False}).retries()


def test_a_variant_that_never_works_is_given_up() -> None:
    planned = order(labelled(["good", "bad"]), 10, 1)
    bad = [trial.trial for trial in planned if trial.variant["v"] == "bad"]
    progress = Progress(planned, {1: True} | dict.fromkeys(bad[:ATTEMPTS], False))
    assert {trial.variant["v"] for trial in progress.pending()} == {"good"}
    assert not progress.retries()


def test_a_resume_forgives() -> None:
    planned = order(labelled(["a"]), ATTEMPTS, 1)
    void = dict.fromkeys(range(1, ATTEMPTS + 1), False)
    assert not Progress(planned, void).retries()
    assert len(Progress(planned, void, forgiven=frozenset(void)).retries()) == ATTEMPTS


@given(VARIANTS, st.integers(1, 4), st.integers(0, 99), st.floats(0, 0.9))
def test_every_run_ends_and_counts_nothing_twice(
    names: list[str], repeat: int, seed: int, failing: float
) -> None:
    source = random.Random(seed)  # noqa: S311 (chance, not a secret)
    progress = Progress(order(labelled(names), repeat, seed), {})
    while True:
        if not progress.pending():
            again = progress.retries()
            progress = Progress((*progress.planned, *again), progress.valid)
        if not progress.pending():
            break
        trial = progress.pending()[0]
        progress = outcome(progress, trial.trial, valid=source.random() >= failing)
    assert not progress.retries()
    _check(progress)


def _check(progress: Progress) -> None:
    numbers = [trial.trial for trial in progress.planned]
    assert len(set(numbers)) == len(numbers)
    tried: Counter[tuple[str, int]] = Counter()
    good: Counter[tuple[str, int]] = Counter()
    for trial in progress.planned:
        if trial.trial in progress.valid:
            tried[_slot(trial)] += 1
            good[_slot(trial)] += progress.valid[trial.trial]
    assert max(tried.values()) <= ATTEMPTS
    assert max(good.values()) <= 1


def _slot(trial: TrialPlan) -> tuple[str, int]:
    return trial.variant["v"], trial.repeat
