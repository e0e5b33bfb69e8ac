//! The loaded program of SRv6 service proxies on its ports.

use hawser_bpf::srv6::{self as bpf, Proxies};

use super::plan::Plan;
use crate::{error::Error, node::find};

/// Proxies on their ports.
pub(crate) struct Node {
    pub(crate) proxies: Proxies,
    pub(crate) plan: Plan,
}

impl Node {
    /// Loads the program with the proxies of a plan and attaches it to its ports.
    pub(crate) fn open(plan: Plan) -> Result<Self, Error> {
        let ports = plan.document.ports.iter().map(|port| port.interface.as_str());
        let (indices, interfaces) = find(ports)?;
        let mut proxies = Proxies::load()?;
        for (number, index) in (0..).zip(&indices) {
            proxies.add_port(number, *index)?;
        }
        for (number, proxy) in (0..).zip(plan.proxies(&interfaces, &indices)) {
            proxies.add(number, &proxy)?;
        }
        for at in plan.outside() {
            indices.get(at).map_or(Ok(()), |index| proxies.distrust(*index))?;
        }
        for index in indices {
            proxies.attach(index)?;
        }
        Ok(Self { proxies, plan })
    }

    /// The counters of each proxy, in the order of the configuration.
    pub(crate) fn counts(&self) -> Result<Vec<bpf::Counts>, Error> {
        let all = (0..).zip(&self.plan.document.proxies);
        all.map(|(number, _)| Ok(self.proxies.counts(number)?)).collect()
    }
}
