//! Which packets are lost.

use crate::random::Stream;
use crate::units::Probability;

/// A model of loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet by itself.
    Bernoulli(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
}

/// A chain of two states that changes before each packet (Gilbert 1960, Elliott 1963).
///
/// With `good` 0 and `bad` 1 it is Gilbert's simple model: bursts last `1 / to_good` packets in the
/// mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of going from the good to the bad state.
    pub to_bad: Probability,
    /// Probability of going from the bad to the good state.
    pub to_good: Probability,
    /// Share lost in the good state.
    pub good: Probability,
    /// Share lost in the bad state.
    pub bad: Probability,
}

impl GilbertElliott {
    /// Share of packets lost in the long run, from the chain's stationary distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let (to_bad, to_good) = (self.to_bad.get(), self.to_good.get());
        let leaves = to_bad + to_good;
        let in_bad = if leaves > 0.0 { to_bad / leaves } else { 0.0 };
        (1.0 - in_bad) * self.good.get() + in_bad * self.bad.get()
    }
}

/// Where the chain stands. It outlives a change of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossState {
    bad: bool,
}

impl LossState {
    /// Whether the next packet is lost.
    pub(crate) fn next(&mut self, model: &Loss, stream: &mut Stream) -> bool {
        match model {
            Loss::None => false,
            Loss::Bernoulli(share) => stream.happens(*share),
            Loss::GilbertElliott(chain) => {
                let leave = if self.bad { chain.to_good } else { chain.to_bad };
                self.bad ^= stream.happens(leave);
                stream.happens(if self.bad { chain.bad } else { chain.good })
            }
        }
    }
}
