//! State of trains: what is being sent, and what each port has sent of them.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::path::{Observed, PathId};

/// Trains take at most this share (1/n) of a port's rate,
const SHARE: u64 = 100;
/// within this time.
const PERIOD: Duration = Duration::from_mins(1);

/// Why a train is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainRefused {
    /// The path is unknown, or has no connection.
    #[error("there is no such path, or it has no connection")]
    NoPath,
    /// The peer does not take trains.
    #[error("the peer does not take trains")]
    Unsupported,
    /// Another train is being sent on the path.
    #[error("another train is being sent on the path")]
    Busy,
    /// Packets wait for a peer, which the train would cost some.
    #[error("packets wait for a peer")]
    Loaded,
    /// Trains would take more of the port than they may.
    #[error("trains would take more than 1 % of the port in a minute")]
    Limit,
}

/// Trains that are being sent.
#[derive(Default)]
pub(super) struct Trains {
    /// By path, with their numbers.
    pub(super) running: Vec<(PathId, u32)>,
    pub(super) last: u32,
    /// What was sent from each local address, with its time, bits.
    spent: HashMap<IpAddr, VecDeque<(Instant, u64)>>,
    /// Messages, and the paths on which they came.
    pub(super) received: Vec<(PathId, Bytes)>,
    /// When frames or requests are due.
    pub(super) next: Option<Instant>,
    pub(super) over: VecDeque<(u32, Option<Observed>)>,
}

impl Trains {
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Takes bits from what a port's trains may send in a minute; returns whether there were as many.
    pub(super) fn spend(&mut self, port: IpAddr, rate_bps: u64, bits: u64, now: Instant) -> bool {
        let spent = self.spent.entry(port).or_default();
        while spent.pop_front_if(|(at, _)| now.saturating_duration_since(*at) >= PERIOD).is_some() {
        }
        let before: u64 = spent.iter().map(|(_, bits)| bits).sum();
        let allowed = rate_bps.saturating_mul(PERIOD.as_secs()) / SHARE;
        let fits = before.saturating_add(bits) <= allowed;
        if fits {
            spent.push_back((now, bits));
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ports_trains_take_at_most_a_hundredth_of_any_minute() {
        let (mut trains, start) = (Trains::default(), Instant::now());
        let [one, other] = [1, 2].map(|host| IpAddr::from([192, 0, 2, host]));
        let at = |seconds| start + Duration::from_secs(seconds);
        // 1 % of 10 Mbit/s in a minute: 6 Mbit.
        assert!(trains.spend(one, 10_000_000, 4_000_000, at(0)));
        assert!(!trains.spend(one, 10_000_000, 2_000_001, at(30)));
        assert!(trains.spend(one, 10_000_000, 2_000_000, at(31)));
        assert!(!trains.spend(one, 10_000_000, 1, at(59)));
        assert!(trains.spend(other, 10_000_000, 6_000_000, at(59)));
        assert!(trains.spend(one, 10_000_000, 4_000_000, at(60)));
        assert!(!trains.spend(one, u64::MAX, u64::MAX, at(60)));
    }
}
