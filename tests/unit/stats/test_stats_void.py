"""Whether void trials may have biased a run."""

from __future__ import annotations

from hawser.stats.void import Trials, problems


def trials(repeats: int, void: int, done: int | None = None) -> Trials:
    kept = repeats - void if done is None else done
    return Trials(repeats=repeats, done=kept, valid=kept, void=void)


def test_a_few_void_trials_are_no_problem() -> None:
    assert problems({"a": trials(10, 1), "b": trials(10, 2), "c": trials(10, 0)}) == ()
    assert problems({"a": trials(5, 1)}) == ()


def test_four_in_five_repeats_need_a_valid_trial() -> None:
    """A run with nine of ten void said `valid: true`."""
    (found,) = problems({"a": trials(10, 9)})
    assert found == "only 1 of 10 repeats of a have a valid trial"
    assert problems({"a": trials(10, 2)}) == ()
    assert problems({"a": trials(10, 3)}) != ()


def test_variants_of_unequal_luck_are_a_problem() -> None:
    """All repeats were tried until they were valid, but one variant's far more often."""
    found = problems({"a": trials(10, 12, done=10), "b": trials(10, 0), "c": trials(10, 1)})
    assert len(found) == 1
    assert found[0].startswith("void trials differ between variants (p = ")
    assert found[0].endswith("12 of 22 trials of a, 0 of 10 trials of b")


def test_two_variants_are_compared_exactly() -> None:
    """By Fisher's exact test 6 of 16 and 0 of 10 have p = 0.053, 8 of 18 and 0 of 10 p = 0.025."""
    assert problems({"a": trials(10, 6, done=10), "b": trials(10, 0)}) == ()
    assert problems({"a": trials(10, 8, done=10), "b": trials(10, 0)}) != ()


def test_the_same_run_gives_the_same_answer() -> None:
    found = {"a": trials(10, 7, done=10), "b": trials(10, 0), "c": trials(10, 1)}
    assert problems(found) == problems(found)


def test_many_variants_of_which_one_has_a_void_trial_do_not_differ() -> None:
    found = {str(number): Trials(repeats=1, valid=1, void=0, done=1) for number in range(15)}
    found["15"] = Trials(repeats=1, valid=1, void=1, done=1)
    assert problems(found) == ()
