//! Two gateways behind NATs that find each other through a third.

#![allow(clippy::unwrap_used)]

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use hawser_sim::{
    gateways::{OPTIONS, number_of, segment},
    nats::{
        Mapping::{self, AddressAndPortDependent, EndpointIndependent},
        Nat, Sites,
    },
};
use hawser_tunnel::config::Options;

const SECOND: Duration = Duration::from_secs(1);

fn sites_with(mappings: [Mapping; 2], delays_ms: [u64; 3], options: [Options; 3]) -> Sites {
    let [one, two] = mappings;
    let nat = |host, mapping| Some(Nat::new(Ipv4Addr::new(198, 18, 1, host), mapping));
    let [a, b, c] = delays_ms.map(Duration::from_millis);
    let accesses = [(nat(1, one), a), (nat(2, two), b), (None, c)];
    Sites::new(accesses, options, Instant::now())
}

fn sites(mappings: [Mapping; 2]) -> Sites {
    sites_with(mappings, [10, 35, 5], [OPTIONS; 3])
}

/// Whether packets pass in both directions within this time.
fn carries(sites: &mut Sites, span: Duration) -> bool {
    sites.take_received(0);
    sites.take_received(1);
    let (mut arrived, mut number) = ([false; 2], 0);
    let mut left = span;
    while left > Duration::ZERO && arrived != [true; 2] {
        for from in [0, 1] {
            sites.send(from, &segment(from, 7, number, 500));
        }
        number += 1;
        sites.run(20 * Duration::from_millis(1));
        left = left.saturating_sub(20 * Duration::from_millis(1));
        for (at, arrived) in arrived.iter_mut().enumerate() {
            let came = sites.take_received(at);
            *arrived |=
                came.iter().any(|packet| number_of(packet).is_some_and(|(flow, _)| flow == 7));
        }
    }
    arrived == [true; 2]
}

#[test]
fn mappings_that_depend_on_nothing_lead_to_a_direct_path() {
    for delays in [[10, 35, 5], [1, 200, 3], [0, 0, 0], [150, 2, 90]] {
        let mut sites = sites_with([EndpointIndependent; 2], delays, [OPTIONS; 3]);
        sites.run(4 * SECOND);
        assert!(carries(&mut sites, 2 * SECOND), "{delays:?}");
        for end in [0, 1] {
            let met = sites.met(end);
            assert!(met.up && !met.relayed, "{delays:?}");
            assert_eq!(met.reflexive, sites.observed(1 - end), "{delays:?}");
        }
        assert_eq!(sites.counters(2).relayed, 0, "{delays:?}");
    }
}

#[test]
fn where_no_direct_path_opens_it_leads_through_the_rendezvous() {
    for mappings in [
        [AddressAndPortDependent; 2],
        [AddressAndPortDependent, EndpointIndependent],
        [EndpointIndependent, AddressAndPortDependent],
    ] {
        let mut sites = sites(mappings);
        sites.run(4 * SECOND);
        assert!(!sites.met(0).up, "{mappings:?}");
        sites.run(4 * SECOND);
        assert!(carries(&mut sites, 2 * SECOND), "{mappings:?}");
        for end in [0, 1] {
            assert!(sites.met(end).up && sites.met(end).relayed, "{mappings:?}");
        }
        assert!(sites.counters(2).relayed > 20, "{mappings:?}");
    }
}

#[test]
fn a_relayed_path_becomes_direct_when_one_can_be_opened() {
    let mut sites = sites([EndpointIndependent; 2]);
    sites.apart = true;
    sites.run(10 * SECOND);
    assert!(carries(&mut sites, 2 * SECOND) && sites.met(0).relayed);
    sites.apart = false;
    sites.run(70 * SECOND);
    assert!(carries(&mut sites, SECOND));
    assert!(!sites.met(0).relayed && !sites.met(1).relayed);
    let relayed = sites.counters(2).relayed;
    assert!(carries(&mut sites, SECOND));
    sites.run(20 * SECOND);
    assert!(sites.counters(2).relayed <= relayed + 20, "but for the end of the old connection");
    sites.apart = true;
    sites.run(20 * SECOND);
    assert!(carries(&mut sites, SECOND) && sites.met(0).relayed, "and back");
}

#[test]
fn a_nat_that_forgets_is_opened_anew() {
    for end in [0, 1] {
        let mut sites = sites([EndpointIndependent; 2]);
        sites.run(4 * SECOND);
        for _ in 0..2 {
            assert!(carries(&mut sites, SECOND));
            let before = sites.observed(end);
            sites.nat(end).unwrap().forget();
            assert!(carries(&mut sites, 8 * SECOND), "the NAT of {end} forgot");
            sites.run(8 * SECOND);
            assert!(carries(&mut sites, SECOND));
            assert!(!sites.met(0).relayed && !sites.met(1).relayed, "the NAT of {end} forgot");
            assert_ne!(sites.observed(end), before);
            assert_eq!(sites.met(1 - end).reflexive, sites.observed(end));
        }
    }
}

#[test]
fn a_gateway_that_restarts_is_met_again() {
    for restarted in [0, 1, 2] {
        let mut sites = sites([EndpointIndependent; 2]);
        sites.run(4 * SECOND);
        assert!(carries(&mut sites, SECOND));
        sites.restart(restarted);
        assert!(carries(&mut sites, 12 * SECOND), "{restarted} has restarted");
        sites.run(20 * SECOND);
        assert!(carries(&mut sites, SECOND) && !sites.met(0).relayed, "{restarted} has restarted");
    }
}

#[test]
fn a_relayed_path_survives_restarts() {
    for restarted in [0, 1, 2] {
        let mut sites = sites([AddressAndPortDependent; 2]);
        sites.run(10 * SECOND);
        assert!(carries(&mut sites, SECOND));
        sites.restart(restarted);
        assert!(carries(&mut sites, 25 * SECOND), "{restarted} has restarted");
    }
}

#[test]
fn gateways_of_earlier_versions_are_told_nothing() {
    let old = Options { newest_version: 2, ..OPTIONS };
    for options in [[old, OPTIONS, OPTIONS], [OPTIONS, old, OPTIONS], [OPTIONS, OPTIONS, old]] {
        let mut sites = sites_with([EndpointIndependent; 2], [10; 3], options);
        sites.run(20 * SECOND);
        assert!(!sites.met(0).up && !sites.met(1).up);
        assert_eq!((sites.counters(0).introductions, sites.counters(1).introductions), (0, 0));
        assert_eq!(sites.counters(2).introductions, 0);
    }
}

/// The longest time without a packet at one end while the other sends every 20 ms.
fn longest_pause(sites: &mut Sites, from: usize, span: Duration) -> Duration {
    let (mut pause, mut longest, mut left) = (Duration::ZERO, Duration::ZERO, span);
    let step = 20 * Duration::from_millis(1);
    sites.take_received(1 - from);
    while left > Duration::ZERO {
        sites.send(from, &segment(from, 7, 0, 500));
        sites.run(step);
        left = left.saturating_sub(step);
        pause =
            if sites.take_received(1 - from).is_empty() { pause + step } else { Duration::ZERO };
        longest = longest.max(pause);
    }
    longest
}

/// All traffic comes from the end that accepts, whichever NAT forgets: the other has only keepalives to learn it from.
#[test]
fn a_path_with_traffic_in_one_direction_is_opened_anew_within_seconds() {
    for (forgetful, offset) in [0, 1].into_iter().flat_map(|end| (0..10).map(move |n| (end, n))) {
        let mut sites = sites([EndpointIndependent; 2]);
        sites.run(4 * SECOND + offset * Duration::from_millis(170));
        assert!(longest_pause(&mut sites, 1, 3 * SECOND) < SECOND / 2);
        sites.nat(forgetful).unwrap().forget();
        let pause = longest_pause(&mut sites, 1, 12 * SECOND);
        assert!(pause < 3 * SECOND, "the NAT of {forgetful} forgot: {pause:?}");
        assert!(!sites.met(0).relayed && !sites.met(1).relayed);
    }
}

/// Nothing is sent at all.
#[test]
fn an_idle_path_is_opened_anew_within_seconds() {
    for forgetful in [0, 1] {
        let mut sites = sites([EndpointIndependent; 2]);
        sites.run(6 * SECOND);
        sites.nat(forgetful).unwrap().forget();
        sites.run(3 * SECOND);
        assert!(carries(&mut sites, SECOND / 5), "the NAT of {forgetful} forgot");
        assert!(!sites.met(0).relayed && !sites.met(1).relayed);
    }
}
