//! What classes of traffic are granted: thresholds of paths (`sla`), and rates (`max_rate_bps`).

use std::time::Duration;

use hawser_multipath::Sla;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;

/// What the paths of a group have to offer to its class. A path that does not is used only if none
/// does, or not at all (`otherwise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlaDocument {
    /// Least rate, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    /// Greatest one-way delay (half of the smoothed RTT), microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_us: Option<u32>,
    /// Greatest RTT variation, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jitter_us: Option<u32>,
    /// Greatest fraction of bytes lost, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    loss_ppm: Option<u32>,
    /// By what fraction a path has to be better than that before it is used again, in millionths.
    #[schemars(range(max = 900_000))]
    margin_ppm: u32,
    /// For how long a path has to be worse before it is left, milliseconds.
    #[schemars(range(max = 3_600_000))]
    leave_after_ms: u32,
    /// For how long it has to be better before it is used again, milliseconds. Doubled, up to 16
    /// times, when it is left again within a minute.
    #[schemars(range(max = 3_600_000))]
    enter_after_ms: u32,
}

impl SlaDocument {
    /// The thresholds as the scheduler takes them.
    pub(super) fn thresholds(&self) -> Sla {
        let time = |us: Option<u32>| us.map(|us| Duration::from_micros(us.into()));
        Sla {
            rate_bps: self.rate_bps,
            delay: time(self.delay_us),
            jitter: time(self.jitter_us),
            loss_ppm: self.loss_ppm,
            margin_ppm: self.margin_ppm,
            leave_after: Duration::from_millis(self.leave_after_ms.into()),
            enter_after: Duration::from_millis(self.enter_after_ms.into()),
        }
    }
}

/// Most that this branch sends of each type of traffic, bit/s; types that are left out are not
/// limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaxRateDocument {
    /// Type I, to all branches together.
    #[serde(rename = "I", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8000))]
    pub(crate) urgent: Option<u64>,
    /// Type II, to all branches together.
    #[serde(rename = "II", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8000))]
    pub(crate) other: Option<u64>,
    /// Type III, by all ports together.
    #[serde(rename = "III", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8000))]
    pub(crate) direct: Option<u64>,
}

impl MaxRateDocument {
    /// Checks that the transport (`quic`: it limits rates) and the classifier enforce what is asked for.
    pub(super) fn check(&self, check: &mut Check, quic: bool, has_classifier: bool) {
        for (class, limit) in [("I", self.urgent), ("II", self.other)] {
            if let Some(limit) = limit.filter(|_| !quic) {
                check.error(
                    &format!("max_rate_bps.{class}"),
                    limit,
                    "no limit: only quic has them",
                );
            }
        }
        if let Some(limit) = self.direct.filter(|_| !has_classifier) {
            check.error("max_rate_bps.III", limit, "no limit without a classifier");
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_tunnel::config::Otherwise;
    use serde_json::json;

    use super::{
        super::{
            parse,
            tests::{fields, sample},
        },
        *,
    };

    #[test]
    fn thresholds_and_rates_are_read() {
        let mut document = sample();
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "quic", "tls": tls});
        document["max_rate_bps"] = json!({"I": 1_000_000});
        document["peers"][0]["groups"][0]["sla"] = json!({"delay_us": 50_000, "loss_ppm": 10_000,
            "margin_ppm": 100_000, "leave_after_ms": 2000, "enter_after_ms": 10_000});
        document["peers"][0]["groups"][0]["otherwise"] = json!("drop");
        let config = parse(&document).unwrap();
        let group = &config.peers[0].groups[0];
        assert_eq!(group.otherwise, Otherwise::Drop);
        let sla = group.sla.unwrap();
        assert_eq!((sla.delay, sla.jitter), (Some(Duration::from_millis(50)), None));
        assert_eq!((sla.rate_bps, sla.loss_ppm), (None, Some(10_000)));
        assert_eq!(config.document.max_rate_bps.urgent, Some(1_000_000));
    }

    #[test]
    fn what_the_transport_does_not_enforce_is_refused() {
        let mut document = sample();
        document["max_rate_bps"] = json!({"I": 9000, "III": 9000});
        document["peers"][0]["groups"][0]["sla"] =
            json!({"margin_ppm": 0, "leave_after_ms": 0, "enter_after_ms": 0});
        let all = ["max_rate_bps.I", "max_rate_bps.III", "peers[0].groups[0].sla"];
        assert_eq!(fields(&document), all);
        document["max_rate_bps"] = json!({"I": 10});
        assert_eq!(fields(&document), ["max_rate_bps.I"]);
    }
}
