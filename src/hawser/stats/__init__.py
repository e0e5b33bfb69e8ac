"""Pure numerics: intervals, effect sizes and checks of order."""

from hawser.stats.order import OrderCheck, autocorrelation, check_order
from hawser.stats.ratio import Ratio, ratio_of_medians
from hawser.stats.summary import Interval, Summary, summarise

__all__ = [
    "Interval",
    "OrderCheck",
    "Ratio",
    "Summary",
    "autocorrelation",
    "check_order",
    "ratio_of_medians",
    "summarise",
]
