//! Where Type III leaves: next hops of the internet ports, which come, change and go.
//!
//! A port has the next hop that the switch's section names, or else the default route that a DHCP
//! client, pppd or router advertisements have put into the main table.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context;
use hawser_netdev::{
    addresses::{Snapshot, Watch},
    default_routes::{self, DefaultRoute, MAIN},
    poll::{Interest, Poller, Waker},
    routes::{Family, Routes},
};

use crate::config::{
    Config,
    switch::{Port, PortKind},
};

/// Packet mark of Type III, and number of its routing table ("HW").
pub(super) const MARK: u32 = 0x4857;

/// A port of type `internet`.
pub(super) struct Exit<'a> {
    pub(super) interface: &'a str,
    /// None: that of the default route.
    next_hop: Option<Ipv4Addr>,
}

/// An interface, and the router there if there is one.
type NextHop = (u32, Option<IpAddr>);

/// The internet ports; None if breakout is left to the operator's routing.
pub(super) fn exits(config: &Config) -> Option<Vec<Exit<'_>>> {
    let classifier = config.classifier.as_ref()?;
    if !classifier.internet.is_empty() {
        let exit = |interface| Exit { interface, next_hop: None };
        return Some(classifier.internet.iter().map(String::as_str).map(exit).collect());
    }
    let ports = config.switch.as_ref()?.ports.iter();
    let internet = ports.filter(|port| port.kind == PortKind::Internet);
    let next_hop = |port: &Port| port.ipv4.map(|(_, next_hop)| next_hop);
    let exit = internet.map(|port| Exit { interface: &port.interface, next_hop: next_hop(port) });
    Some(exit.collect())
}

/// Makes the routes for marked packets lead to the next hops that there are now.
pub(super) async fn follow(routes: &Routes, config: &Config) -> anyhow::Result<()> {
    let Some(exits) = exits(config) else { return Ok(()) };
    let links = Snapshot::read().context("links")?;
    for family in [Family::V4, Family::V6] {
        let known = match (default_routes::read(family), family) {
            (Err(_), Family::V6) => continue, // a kernel without IPv6
            (known, _) => known.context("default routes")?,
        };
        let wanted = next_hops(&exits, family, &links, &known);
        let marked = known.iter().filter(|route| route.table == MARK);
        if wanted == marked.map(|route| (route.interface, route.gateway)).collect() {
            continue;
        }
        let hops: Vec<_> = wanted.into_iter().collect();
        tracing::info!(?family, ?hops, "next hops of local breakout");
        if hops.is_empty() {
            routes.remove_marked_route(family, MARK).await?;
        } else {
            routes.add_marked_route(family, MARK, &hops).await?;
        }
    }
    Ok(())
}

/// Next hops of those ports that are up and have one.
fn next_hops(
    exits: &[Exit<'_>],
    family: Family,
    links: &Snapshot,
    known: &[DefaultRoute],
) -> BTreeSet<NextHop> {
    let next_hop = |exit: &Exit<'_>| {
        let link = links.link(exit.interface).filter(|link| link.up)?;
        if let (Family::V4, Some(fixed)) = (family, exit.next_hop) {
            return Some((link.index, Some(fixed.into())));
        }
        let own = known.iter().filter(|route| (route.table, route.interface) == (MAIN, link.index));
        own.min_by_key(|route| route.metric).map(|route| (link.index, route.gateway))
    };
    exits.iter().filter_map(next_hop).collect()
}

/// A thread that follows the next hops, until dropped.
pub(crate) struct Follower {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Longest time until the thread looks for itself, should events be lost.
const INTERVAL: Duration = Duration::from_secs(30);

/// Time from an event until routes are read: addresses, links and routes change together.
const SETTLE: Duration = Duration::from_millis(50);

const EVENT: u64 = 0;
const STOP: u64 = 1;

impl Follower {
    /// Starts it; `config` is the configuration in force at each moment.
    pub(crate) fn start(config: Arc<Mutex<Config>>) -> anyhow::Result<Self> {
        let (watch, waker) = (Watch::open()?, Waker::new()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("breakout".into()).spawn({
            let waker = waker.clone();
            move || {
                if let Err(error) = run(&config, &watch, &waker, &runtime) {
                    let error = format!("{error:#}");
                    tracing::error!(error, "local breakout no longer follows addresses");
                }
            }
        })?;
        Ok(Self { waker, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    config: &Mutex<Config>,
    watch: &Watch,
    waker: &Waker,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<()> {
    let (mut poller, mut ready) = (Poller::new()?, Vec::new());
    poller.add(watch, EVENT, Interest::Read)?;
    poller.add(waker, STOP, Interest::Read)?;
    loop {
        poller.wait(INTERVAL, &mut ready)?;
        if ready.iter().any(|ready| ready.token == STOP) {
            return Ok(());
        }
        thread::sleep(SETTLE);
        watch.clear();
        let config = config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let done = runtime.block_on(async { follow(&Routes::open()?, &config).await });
        if let Err(error) = done {
            tracing::warn!(error = format!("{error:#}"), "local breakout");
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_netdev::addresses::Link;

    use super::*;

    fn link(index: u32, name: &str, up: bool) -> Link {
        Link { index, name: name.into(), up }
    }

    fn route(table: u32, interface: u32, gateway: Option<[u8; 4]>, metric: u32) -> DefaultRoute {
        DefaultRoute { table, interface, gateway: gateway.map(IpAddr::from), metric }
    }

    #[test]
    fn ports_have_the_next_hop_of_the_switch_or_of_the_best_default_route() {
        let exit = |interface, next_hop: Option<[u8; 4]>| Exit {
            interface,
            next_hop: next_hop.map(Ipv4Addr::from),
        };
        let exits = [
            exit("fixed", Some([198, 18, 0, 1])),
            exit("dhcp", None),
            exit("ppp", None),
            exit("late", None),
            exit("down", Some([198, 18, 1, 1])),
            exit("absent", None),
        ];
        let links = vec![
            link(2, "fixed", true),
            link(3, "dhcp", true),
            link(4, "ppp", true),
            link(5, "late", true),
            link(6, "down", false),
        ];
        let links = Snapshot { links, addresses: Vec::new() };
        let known = [
            route(MAIN, 3, Some([192, 0, 2, 9]), 200),
            route(MAIN, 3, Some([192, 0, 2, 1]), 100),
            route(MAIN, 4, None, 300),
            route(100, 5, Some([192, 0, 2, 1]), 0),
        ];
        let hop = |interface, router: Option<[u8; 4]>| (interface, router.map(IpAddr::from));
        let found = next_hops(&exits, Family::V4, &links, &known);
        let expected = [hop(2, Some([198, 18, 0, 1])), hop(3, Some([192, 0, 2, 1])), hop(4, None)];
        assert_eq!(found, BTreeSet::from(expected));
        let found = next_hops(&exits, Family::V6, &links, &known[2..3]);
        assert_eq!(found, BTreeSet::from([hop(4, None)]), "a fixed next hop is IPv4's");
    }
}
