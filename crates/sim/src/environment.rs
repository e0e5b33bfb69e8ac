//! Networks to simulate: paths and their impairments.

use std::time::Duration;

use hawser_impair::{
    Bottleneck, Distribution, Jitter, Loss, Probability, Profile, Rate, Service, ValueError,
};

/// One path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Rate, Mbit/s.
    pub rate_mbps: f64,
    /// One-way delay, ms.
    pub delay_ms: f64,
    /// Standard deviation of the delay, ms.
    pub jitter_ms: f64,
    /// Random loss, per cent.
    pub loss_percent: f64,
    /// Queue limit, full packets.
    pub queue: u32,
}

/// Length of a full packet on a link with Ethernet header, bytes.
pub(crate) const FRAME: u64 = 1514;

impl Link {
    const fn new(rate_mbps: f64, delay_ms: f64) -> Self {
        Self { rate_mbps, delay_ms, jitter_ms: 0.0, loss_percent: 0.0, queue: 1000 }
    }

    const fn jitter(self, jitter_ms: f64) -> Self {
        Self { jitter_ms, ..self }
    }

    const fn loss(self, loss_percent: f64) -> Self {
        Self { loss_percent, ..self }
    }

    const fn shaped(rate_mbps: f64) -> Self {
        Self { queue: 50, ..Self::new(rate_mbps, 0.0) }
    }

    /// Profile for the emulated channel.
    ///
    /// # Errors
    /// A value is out of range.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of values that are tables here
    pub(crate) fn profile(&self) -> Result<Profile, ValueError> {
        let service = Service::Constant(Rate::from_bits_per_second((self.rate_mbps * 1e6) as u64)?);
        let seconds = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let loss = Probability::new(self.loss_percent / 100.0)?;
        let jitter = Jitter {
            deviation: seconds(self.jitter_ms),
            distribution: Distribution::Normal,
            correlation: Probability::ZERO,
            reorders: false,
        };
        Ok(Profile {
            bottleneck: Some(Bottleneck { service, queue: u64::from(self.queue) * FRAME }),
            loss: Loss::Bernoulli(loss),
            delay: seconds(self.delay_ms),
            jitter: (self.jitter_ms > 0.0).then_some(jitter),
            ..Profile::default()
        })
    }
}

/// Paths between two gateways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Environment {
    /// Its name.
    pub name: &'static str,
    /// Its paths.
    pub links: &'static [Link],
}

impl Environment {
    /// Sum of the rates, Mbit/s.
    #[must_use]
    pub fn sum_mbps(&self) -> f64 {
        self.links.iter().map(|link| link.rate_mbps).sum()
    }

    /// The fastest path alone.
    #[must_use]
    pub fn fastest(&self) -> &'static [Link] {
        let rate = |(_, link): &(usize, &Link)| link.rate_mbps;
        let links = self.links.iter().enumerate();
        let best = links.max_by(|a, b| rate(a).total_cmp(&rate(b))).map_or(0, |(index, _)| index);
        self.links.get(best..=best).unwrap_or_default()
    }
}

/// Environments published by the mqvpn project
/// (`docs/report/2026-06-18-reorder-only-datagram-multipath-...`), with netem's queue of 1000
/// packets.
pub const ENVIRONMENTS: &[Environment] = &[
    Environment { name: "baseline", links: &[Link::new(50.0, 20.0), Link::new(50.0, 20.0)] },
    Environment { name: "rtt_40", links: &[Link::new(50.0, 20.0), Link::new(50.0, 40.0)] },
    Environment { name: "rtt_70", links: &[Link::new(50.0, 20.0), Link::new(50.0, 70.0)] },
    Environment { name: "rtt_120", links: &[Link::new(50.0, 20.0), Link::new(50.0, 120.0)] },
    Environment { name: "rtt_320", links: &[Link::new(50.0, 20.0), Link::new(50.0, 320.0)] },
    Environment {
        name: "jit_5",
        links: &[Link::new(50.0, 20.0).jitter(5.0), Link::new(50.0, 20.0).jitter(5.0)],
    },
    Environment {
        name: "jit_20",
        links: &[Link::new(50.0, 20.0).jitter(20.0), Link::new(50.0, 20.0).jitter(20.0)],
    },
    Environment {
        name: "loss_05",
        links: &[Link::new(50.0, 20.0).loss(0.5), Link::new(50.0, 20.0).loss(0.5)],
    },
    Environment {
        name: "loss_2",
        links: &[Link::new(50.0, 20.0).loss(2.0), Link::new(50.0, 20.0).loss(2.0)],
    },
    Environment { name: "bw_4to1", links: &[Link::new(50.0, 20.0), Link::new(12.0, 20.0)] },
    Environment { name: "bw_10to1", links: &[Link::new(100.0, 20.0), Link::new(10.0, 20.0)] },
    Environment {
        name: "dual_lte",
        links: &[
            Link::new(40.0, 30.0).jitter(5.0).loss(0.5),
            Link::new(25.0, 45.0).jitter(8.0).loss(0.5),
        ],
    },
    Environment {
        name: "fiber_lte",
        links: &[Link::new(300.0, 8.0), Link::new(30.0, 40.0).jitter(8.0).loss(0.5)],
    },
    Environment {
        name: "lte_starlink",
        links: &[Link::new(40.0, 35.0).jitter(8.0), Link::new(100.0, 50.0).jitter(25.0).loss(1.0)],
    },
    Environment {
        name: "lte_geo",
        links: &[Link::new(40.0, 35.0), Link::new(20.0, 320.0).jitter(20.0).loss(0.5)],
    },
    Environment {
        name: "congested",
        links: &[
            Link::new(20.0, 50.0).jitter(20.0).loss(2.0),
            Link::new(15.0, 60.0).jitter(25.0).loss(2.0),
        ],
    },
];

/// Ratios of Lee, Chan and Chen 2023, Table I: 40 Mbit/s in total, queues of 50 packets.
pub const RATIOS: &[Environment] = &[
    Environment {
        name: "10:10:10:10",
        links: &[Link::shaped(10.0), Link::shaped(10.0), Link::shaped(10.0), Link::shaped(10.0)],
    },
    Environment {
        name: "4:8:12:16",
        links: &[Link::shaped(4.0), Link::shaped(8.0), Link::shaped(12.0), Link::shaped(16.0)],
    },
    Environment {
        name: "2:4:8:26",
        links: &[Link::shaped(2.0), Link::shaped(4.0), Link::shaped(8.0), Link::shaped(26.0)],
    },
    Environment {
        name: "1:2:4:33",
        links: &[Link::shaped(1.0), Link::shaped(2.0), Link::shaped(4.0), Link::shaped(33.0)],
    },
];
