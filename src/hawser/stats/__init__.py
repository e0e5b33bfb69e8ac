"""Pure numerics: intervals, effects, verdicts and checks of order."""

from hawser.stats.effect import Effect, corrected, effect, ordered, unpaired
from hawser.stats.order import OrderCheck, autocorrelation, check_order
from hawser.stats.summary import Interval, Summary, summarise
from hawser.stats.verdict import Bounds, BoundsCheck, Verdict, check_bounds, decide

__all__ = [
    "Bounds",
    "BoundsCheck",
    "Effect",
    "Interval",
    "OrderCheck",
    "Summary",
    "Verdict",
    "autocorrelation",
    "check_bounds",
    "check_order",
    "corrected",
    "decide",
    "effect",
    "ordered",
    "summarise",
    "unpaired",
]
