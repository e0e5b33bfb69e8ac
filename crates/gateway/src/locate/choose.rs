//! Which addresses a member path should have.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use hawser_netdev::{
    addresses::{AddressState, Link, Snapshot, is_local},
    routes::Family,
};
use hawser_tunnel::config::Path;

use crate::config::ends::{Ends, Remote};

/// Time without an answer from an address of a name, after which the next one is tried.
const NEXT_ADDRESS: Duration = Duration::from_secs(5);

/// What this host has at one moment.
pub(super) struct Here {
    snapshot: Snapshot,
    /// Whether sockets can be bound to these addresses. Asked once each, for many paths share one.
    local: BTreeMap<IpAddr, bool>,
}

impl Here {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, local: BTreeMap::new() }
    }

    fn has(&mut self, address: IpAddr) -> bool {
        *self.local.entry(address).or_insert_with(|| is_local(address))
    }
}

/// Addresses of a path, and why it cannot be used, if it cannot. `current` are those so far, on
/// which nothing has arrived for `silent`; `candidates` those of the peer's name, or why there are
/// none.
pub(super) fn choose(
    ends: &Ends,
    current: Path,
    silent: Option<Duration>,
    candidates: Result<&[IpAddr], &str>,
    here: &mut Here,
) -> (Path, Option<String>) {
    let mut waits = None;
    let remotes = match (&ends.remote, candidates) {
        (Remote::Unknown, _) => Vec::new(),
        (Remote::Address(address), _) => vec![*address],
        (Remote::Name(_), Ok(found)) => ordered(found, current.remote, silent),
        (Remote::Name(name), Err(error)) => {
            waits = Some(format!("{name} does not resolve: {error}"));
            // What was found before may still be there.
            current.remote.into_iter().collect()
        }
    };
    let remotes: Vec<_> = remotes
        .into_iter()
        .filter(|remote| ends.family.is_none_or(|f| is_of(*remote, f)))
        .collect();
    if waits.is_none() && remotes.is_empty() && ends.remote != Remote::Unknown {
        waits = Some("the name has no address of this version of IP".to_owned());
    }
    let found = match &ends.interface {
        None => of_routing(ends, &remotes, here),
        Some(name) => match here.snapshot.link(name) {
            Some(link) => of_interface(ends, link, current, &remotes, &here.snapshot),
            None => Err(format!("there is no interface {name}")),
        },
    };
    // Its addresses stay while a cable is out for a moment, and so do the sockets.
    let link = ends.interface.as_deref().and_then(|name| here.snapshot.link(name));
    let down = link.filter(|link| !link.up).map(|link| format!("{} is down", link.name));
    match found {
        Ok(path) => {
            let unknown = waits.filter(|_| path.remote.is_none() || silent.is_some());
            (path, down.or(unknown))
        }
        Err(reason) => {
            let remote = remotes.first().copied();
            (Path { local: None, remote, ..Path::default() }, Some(down.unwrap_or(reason)))
        }
    }
}

/// The addresses of a name, the most promising first: the one in use unless it is silent for long,
/// then the one after it.
fn ordered(found: &[IpAddr], current: Option<IpAddr>, silent: Option<Duration>) -> Vec<IpAddr> {
    let mut all = found.to_vec();
    let place = current.and_then(|current| found.iter().position(|address| *address == current));
    match (current, place) {
        (Some(_), Some(place)) => {
            let next = usize::from(silent.is_some_and(|silent| silent >= NEXT_ADDRESS));
            let turn = (place + next).checked_rem(all.len()).unwrap_or(0);
            all.rotate_left(turn);
        }
        // The name has moved, but the peer still answers where it was.
        (Some(current), None) if silent.is_none() => all.insert(0, current),
        _ => {}
    }
    all
}

fn of_routing(ends: &Ends, remotes: &[IpAddr], here: &mut Here) -> Result<Path, String> {
    let remote = remotes.first().copied();
    match ends.local {
        Some(local) if here.has(local) => {
            Ok(Path { local: Some(local), remote, ..Path::default() })
        }
        Some(local) => Err(format!("no interface has the address {local}")),
        None => Err("no address".to_owned()),
    }
}

fn of_interface(
    ends: &Ends,
    link: &Link,
    current: Path,
    remotes: &[IpAddr],
    snapshot: &Snapshot,
) -> Result<Path, String> {
    let Link { index, name, .. } = link;
    let path = |local, remote| Path {
        local: Some(local),
        remote,
        interface: Some(*index),
        ..Path::default()
    };
    if let Some(local) = ends.local {
        let owns = snapshot.of(*index, local.is_ipv6()).find(|own| own.address == local);
        return match owns.map(|own| own.state) {
            Some(AddressState::Tentative) => Err(format!("{local} on {name} is tentative")),
            Some(_) => Ok(path(local, remotes.first().copied())),
            None => Err(format!("{name} does not have the address {local}")),
        };
    }
    let choose = |ipv6| snapshot.choose(*index, ipv6, current.local);
    if ends.remote == Remote::Unknown || remotes.is_empty() {
        let ipv6 = ends.family == Some(Family::V6);
        let local = choose(ipv6).ok_or_else(|| lacking(ipv6, link, snapshot))?;
        return Ok(path(local, None));
    }
    let pairs = remotes.iter().filter_map(|remote| Some((choose(remote.is_ipv6())?, *remote)));
    let (local, remote) = pairs
        .into_iter()
        .next()
        .ok_or_else(|| lacking(remotes.first().is_some_and(IpAddr::is_ipv6), link, snapshot))?;
    Ok(path(local, Some(remote)))
}

fn lacking(ipv6: bool, link: &Link, snapshot: &Snapshot) -> String {
    let (version, name) = (if ipv6 { "IPv6" } else { "IPv4" }, &link.name);
    if snapshot.of(link.index, ipv6).next().is_some() {
        return format!("the {version} address on {name} is tentative");
    }
    format!("no {version} address on {name}")
}

fn is_of(address: IpAddr, family: Family) -> bool {
    address.is_ipv4() == (family == Family::V4)
}

#[cfg(test)]
mod tests {
    use hawser_netdev::addresses::Address;
    use hawser_tunnel::PathId;

    use super::*;

    const LONG: Option<Duration> = Some(NEXT_ADDRESS);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn snapshot(addresses: &[&str]) -> Snapshot {
        let of = |text: &&str| Address {
            interface: 3,
            address: ip(text),
            state: AddressState::Preferred,
            secondary: false,
        };
        let link = Link { index: 3, name: "wan1".into(), up: true };
        Snapshot { links: vec![link], addresses: addresses.iter().map(of).collect() }
    }

    fn ends(remote: Remote) -> Ends {
        let path = PathId { peer: 2, group: 0, member: 0 };
        Ends { path, interface: Some("wan1".into()), local: None, remote, family: None }
    }

    /// [`super::choose`] on a host of which only the snapshot matters.
    fn choose(
        ends: &Ends,
        current: Path,
        silent: Option<Duration>,
        candidates: Result<&[IpAddr], &str>,
        snapshot: &Snapshot,
    ) -> (Path, Option<String>) {
        super::choose(ends, current, silent, candidates, &mut Here::new(snapshot.clone()))
    }

    fn bound(local: &str, remote: Option<&str>) -> Path {
        Path {
            local: Some(ip(local)),
            remote: remote.map(ip),
            interface: Some(3),
            ..Path::default()
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let to = ends(Remote::Address(ip("192.0.2.9")));
        let none = Path { local: None, remote: Some(ip("192.0.2.9")), ..Path::default() };
        let find = |snapshot: &Snapshot| choose(&to, Path::default(), None, Ok(&[]), snapshot);
        let waits = |reason: &str| (none, Some(reason.to_owned()));
        assert_eq!(find(&Snapshot::default()), waits("there is no interface wan1"));
        assert_eq!(find(&snapshot(&["2001:db8::1"])), waits("no IPv4 address on wan1"));
        let mut tentative = snapshot(&["198.51.100.1"]);
        tentative.addresses[0].state = AddressState::Tentative;
        assert_eq!(find(&tentative), waits("the IPv4 address on wan1 is tentative"));
        tentative.links[0].up = false;
        assert_eq!(find(&tentative), waits("wan1 is down"));
        let (mut own, path) =
            (snapshot(&["198.51.100.1"]), bound("198.51.100.1", Some("192.0.2.9")));
        assert_eq!(find(&own), (path, None));
        own.links[0].up = false;
        assert_eq!(find(&own), (path, Some("wan1 is down".to_owned())), "its socket stays");
    }

    #[test]
    fn a_name_leads_to_the_first_address_of_a_version_that_both_have() {
        let (to, both) = (ends(Remote::Name("gw2".into())), [ip("2001:db8::9"), ip("192.0.2.9")]);
        let find = |own: &[&str]| choose(&to, Path::default(), None, Ok(&both), &snapshot(own)).0;
        let (v4, v6) = ("198.51.100.1", "2001:db8::1");
        assert_eq!(find(&[v4]), bound(v4, Some("192.0.2.9")));
        assert_eq!(find(&[v4, v6]), bound(v6, Some("2001:db8::9")));
        let (path, waits) =
            choose(&to, Path::default(), None, Err("no such name"), &snapshot(&[v4]));
        assert_eq!(
            (path.remote, waits.as_deref()),
            (None, Some("gw2 does not resolve: no such name"))
        );
    }

    #[test]
    fn a_path_that_works_stays_where_it_is() {
        let to = ends(Remote::Name("gw2".into()));
        let (own, [a, b, c]) =
            (snapshot(&["198.51.100.1"]), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        let current = bound("198.51.100.1", Some(a));
        let find = |silent, found: Result<&[IpAddr], &str>| {
            let (path, waits) = choose(&to, current, silent, found, &own);
            assert_eq!(waits.is_some(), found.is_err() && silent.is_some());
            path.remote.unwrap().to_string()
        };
        assert_eq!(find(None, Ok(&[ip(b)])), a, "although its name has moved");
        assert_eq!(find(None, Err("no answer")), a);
        assert_eq!(find(LONG, Err("no answer")), a);
        assert_eq!(find(Some(Duration::ZERO), Ok(&[ip(b)])), b);
        assert_eq!(find(Some(Duration::ZERO), Ok(&[ip(b), ip(a)])), a);
        assert_eq!(find(LONG, Ok(&[ip(b), ip(a), ip(c)])), c, "the next one");
        assert_eq!(find(LONG, Ok(&[ip(a)])), a);
    }

    #[test]
    fn a_listener_has_the_version_that_it_asks_for() {
        let mut from = ends(Remote::Unknown);
        let own = snapshot(&["198.51.100.1", "2001:db8::1"]);
        let find = |from: &Ends| choose(from, Path::default(), None, Ok(&[]), &own);
        assert_eq!(find(&from), (bound("198.51.100.1", None), None));
        from.family = Some(Family::V6);
        assert_eq!(find(&from), (bound("2001:db8::1", None), None));
        from.local = Some(ip("198.51.100.2"));
        assert_eq!(find(&from).1.unwrap(), "wan1 does not have the address 198.51.100.2");
    }
}
