//! Packet loss models.

use crate::random::Stream;
use crate::units::Probability;

/// A loss model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent losses with this probability.
    Bernoulli(Probability),
    /// Bursts of losses.
    GilbertElliott(GilbertElliott),
}

/// A Markov chain of two states with a transition before each packet (Gilbert 1960, Elliott 1963).
///
/// With `good` 0 and `bad` 1 it is Gilbert's simple model, whose bursts last `1 / to_good` packets on
/// average. In `tc-netem(8)`, the four values are `p`, `r`, `1-k` and `1-h`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Transition probability from the good to the bad state.
    pub to_bad: Probability,
    /// Transition probability from the bad to the good state.
    pub to_good: Probability,
    /// Loss probability in the good state.
    pub good: Probability,
    /// Loss probability in the bad state.
    pub bad: Probability,
}

impl GilbertElliott {
    /// Mean loss ratio, from the chain's stationary distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let (to_bad, to_good) = (self.to_bad.get(), self.to_good.get());
        let transitions = to_bad + to_good;
        let in_bad = if transitions > 0.0 { to_bad / transitions } else { 0.0 };
        (1.0 - in_bad) * self.good.get() + in_bad * self.bad.get()
    }
}

/// State of the chain. It survives a change of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossState {
    bad: bool,
}

impl LossState {
    /// Whether the next packet is lost.
    pub(crate) fn next(&mut self, model: &Loss, stream: &mut Stream) -> bool {
        match model {
            Loss::None => false,
            Loss::Bernoulli(probability) => stream.bernoulli(*probability),
            Loss::GilbertElliott(chain) => {
                let leave = if self.bad { chain.to_good } else { chain.to_bad };
                self.bad ^= stream.bernoulli(leave);
                stream.bernoulli(if self.bad { chain.bad } else { chain.good })
            }
        }
    }
}
