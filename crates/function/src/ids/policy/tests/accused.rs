//! From malicious flows to blocks of their sources, and how long these last.

use super::*;

const EVIDENCE_US: u64 = 10 * SECOND_US;
const RATE: u64 = 20;

/// Without limits that matter.
pub(super) fn policy(scope: Scope) -> Policy {
    let changed =
        Verdicts { per_minute: 6000, blocks_max: 1000, lifetime_s: 100, scope, ..settings() };
    Policy::new(changed, Vec::new(), 7)
}

pub(super) fn tuple(source: &str, port: u16) -> Tuple {
    Tuple {
        source: source.parse().unwrap(),
        destination: "198.51.100.1".parse().unwrap(),
        source_port: port,
        destination_port: 80,
        protocol: 6,
    }
}

/// A record of as many packets as are enough, of a flow that goes on, from this port, whose number is the port's.
pub(super) fn accusation(source: &str, port: u16, first_us: u64) -> Accusation {
    Accusation {
        tuple: tuple(source, port),
        is_begun: true,
        is_over: false,
        number: port.into(),
        flow: format!("r-{port}"),
        first_us,
        packets: 8,
    }
}

fn accuse(policy: &mut Policy, now_us: u64, source: &str, port: u16) -> Decision {
    policy.accuse(now_us, accusation(source, port, now_us), why)
}

pub(super) fn covers(policy: &Policy, decision: Decision) -> Target {
    policy.block(block(decision)).unwrap().target
}

/// A block of a source since `now_us`.
fn blocked(policy: &mut Policy, now_us: u64, source: &str) -> u64 {
    let decisions: Vec<_> = (1..=5).map(|port| accuse(policy, now_us, source, port)).collect();
    let id = block(decisions[4]);
    assert_eq!(policy.block(id).unwrap().target, finding(source).target);
    id
}

/// Packets of a window of 2 s that ends now.
fn hear(policy: &mut Policy, now_us: u64, tuple: Tuple, packets: [u64; 2]) -> Vec<u64> {
    policy.hear(now_us, &Heard { tuple, packets, first_us: now_us - 2 * SECOND_US })
}

#[test]
fn a_false_alarm_blocks_its_flow_alone() {
    let mut policy = policy(Scope::Source);
    for (number, port) in (1..=4).zip(40000..) {
        let decision = accuse(&mut policy, number * SECOND_US, "192.0.2.8", port);
        let target = Target::of(&tuple("192.0.2.8", port), Scope::Flow);
        assert_eq!(covers(&policy, decision), target);
    }
}

#[test]
fn enough_different_flows_block_their_source_or_pair() {
    for scope in [Scope::Source, Scope::Pair] {
        let mut policy = policy(scope);
        let all: Vec<_> = (1..=5).map(|port| accuse(&mut policy, 7, "192.0.2.8", port)).collect();
        assert_eq!(covers(&policy, all[4]), Target::of(&tuple("192.0.2.8", 5), scope));
        assert_eq!(policy.block(block(all[4])).unwrap().why.flows, 5);
        assert_eq!(accuse(&mut policy, 8, "192.0.2.8", 6), Decision::Known);
    }
}

#[test]
fn a_flow_that_is_named_often_counts_once() {
    let mut policy = policy(Scope::Source);
    let id = block(accuse(&mut policy, 0, "192.0.2.8", 1));
    for round in 1..20 {
        assert_eq!(accuse(&mut policy, round, "192.0.2.8", 1), Decision::Known);
    }
    // Its block is taken back and pardoned; the flow itself still is one.
    policy.take_back(20, id);
    for port in 2..=5 {
        let decision = accuse(&mut policy, 20, "192.0.2.8", port);
        assert_eq!(covers(&policy, decision).destination.is_none(), port == 5, "{port}");
    }
}

#[test]
fn flows_far_apart_do_not_add_up() {
    let mut policy = policy(Scope::Source);
    for port in 1..=40 {
        let now_us = u64::from(port) * EVIDENCE_US / 4 + u64::from(port);
        let decision = accuse(&mut policy, now_us, "192.0.2.8", port);
        assert!(covers(&policy, decision).source_port.is_some(), "{port}");
    }
}

#[test]
fn what_is_over_is_evidence_and_no_more() {
    let mut policy = policy(Scope::Source);
    let mut over = |port| {
        let over = Accusation { is_over: true, ..accusation("192.0.2.8", port, 0) };
        policy.accuse(0, over, why)
    };
    assert_eq!([1, 2, 3, 4].map(&mut over), [Decision::Noted; 4]);
    assert!(matches!(over(5), Decision::Block(_)), "its source");
}

#[test]
fn a_flow_met_in_mid_stream_says_nothing_of_its_source() {
    let mut policy = policy(Scope::Source);
    for port in 1..20 {
        let met = Accusation { is_begun: false, ..accusation("192.0.2.8", port, 0) };
        let decision = policy.accuse(0, met, why);
        assert!(covers(&policy, decision).source_port.is_some());
    }
}

#[test]
fn scope_flow_blocks_flows_alone() {
    let mut policy = policy(Scope::Flow);
    for port in 1..20 {
        let decision = accuse(&mut policy, 0, "192.0.2.8", port);
        assert_eq!(covers(&policy, decision).source_port, Some(port));
    }
}

#[test]
fn nothing_is_collected_of_allowed_and_pardoned_sources() {
    let mut policy = policy(Scope::Source);
    for port in 1..20 {
        assert_eq!(accuse(&mut policy, 0, "10.1.2.3", port), Decision::Allowed);
    }
    let id = blocked(&mut policy, 0, "192.0.2.8");
    policy.take_back(1, id);
    for port in 10..20 {
        assert_eq!(accuse(&mut policy, 2, "192.0.2.8", port), Decision::Pardoned);
    }
}

#[test]
fn attempts_of_a_blocked_host_neither_renew_its_block_nor_return_it() {
    let mut policy = policy(Scope::Source);
    let id = blocked(&mut policy, 0, "192.0.2.8");
    for second in (2..100).step_by(2) {
        let now_us = second * SECOND_US;
        // A record calls it malicious, and it sends somewhat less than a flood does.
        let port = 1000 + u16::try_from(second).unwrap();
        assert_eq!(accuse(&mut policy, now_us, "192.0.2.8", port), Decision::Known);
        let packets = [2 * RATE - 1, 0];
        assert!(hear(&mut policy, now_us, tuple("192.0.2.8", port), packets).is_empty());
    }
    policy.expire(100 * SECOND_US);
    assert!(policy.block(id).is_none());
    // What it tried before the end is named after it, and so is what could not be answered.
    let late = |port| accusation("192.0.2.8", port, 99 * SECOND_US);
    for port in 2000..2020 {
        assert_eq!(policy.accuse(101 * SECOND_US, late(port), why), Decision::Known);
        let mut other = late(port);
        other.tuple = other.tuple.reversed();
        assert_eq!(policy.accuse(101 * SECOND_US, other, why), Decision::Known);
    }
    assert!(matches!(accuse(&mut policy, 101 * SECOND_US, "192.0.2.8", 3000), Decision::Block(_)));
}

#[test]
fn a_flood_stays_blocked_whatever_the_model_says() {
    let mut policy = policy(Scope::Source);
    let id = blocked(&mut policy, 0, "192.0.2.8");
    let mut renewed = Vec::new();
    for second in (2..1000).step_by(2) {
        let now_us = second * SECOND_US;
        // In windows of many flows, and of flows in which it is the one that answers.
        for _ in 0..RATE {
            let out = hear(&mut policy, now_us, tuple("192.0.2.8", 9), [1, 0]);
            let back = hear(&mut policy, now_us, tuple("192.0.2.8", 9).reversed(), [500, 1]);
            renewed.extend(out.into_iter().chain(back));
        }
        assert_eq!(policy.expire(now_us), if second == 100 { 4 } else { 0 }, "the first flows'");
    }
    // One renewal for each half of a lifetime, or a period later.
    assert!((16..=20).contains(&renewed.len()), "{}", renewed.len());
    assert_eq!(policy.block(id).unwrap().renewals as usize, renewed.len());
    assert_eq!(policy.expire(1100 * SECOND_US), 1, "it has ended");
}

#[test]
fn packets_before_the_block_do_not_renew_it() {
    let mut policy = policy(Scope::Source);
    blocked(&mut policy, 60 * SECOND_US, "192.0.2.8");
    let heard =
        Heard { tuple: tuple("192.0.2.8", 9), packets: [100_000, 0], first_us: 59 * SECOND_US };
    assert!(policy.hear(130 * SECOND_US, &heard).is_empty());
}

#[test]
fn a_flood_of_sources_makes_room_for_the_next_and_forgets_the_oldest_alone() {
    let mut policy =
        Policy::new(Verdicts { per_minute: 0, blocks_max: 100, ..settings() }, Vec::new(), 7);
    let source = |number: u16| format!("192.0.{}.{}", number / 250, number % 250);
    for port in 1..=3 {
        for number in 0..100 {
            accuse(&mut policy, 0, &source(number), port);
        }
    }
    assert_eq!(accuse(&mut policy, 0, &source(100), 1), Decision::Limited);
    policy.settings.per_minute = 6000;
    let has_enough = |policy: &mut Policy, number| {
        let decisions = [4, 5].map(|port| accuse(policy, 0, &source(number), port));
        covers(policy, decisions[1]).source_port.is_none()
    };
    assert!(has_enough(&mut policy, 1), "it is remembered");
    assert!(!has_enough(&mut policy, 0), "it was the oldest");
}

proptest! {
    /// A source is blocked at once when enough of its flows are malicious within the time, and never before.
    #[test]
    fn sources_are_blocked_by_enough_flows(
        accused in prop::collection::vec((0_u64..4_000_000, 0_u8..3, 1_u16..9), 1..200),
    ) {
        let mut policy = policy(Scope::Source);
        let mut seen: Vec<(u64, u8, u16)> = Vec::new();
        let mut now_us = 0;
        for (pause_us, host, port) in accused {
            now_us += pause_us;
            policy.expire(now_us);
            let decision = accuse(&mut policy, now_us, &format!("192.0.2.{host}"), port);
            if decision == Decision::Known {
                continue;
            }
            seen.retain(|flow| (flow.1, flow.2) != (host, port));
            seen.push((now_us, host, port));
            let recent = seen.iter().filter(|flow| flow.0 + EVIDENCE_US >= now_us && flow.1 == host);
            let is_enough = recent.count() >= 5;
            prop_assert_eq!(covers(&policy, decision).source_port.is_none(), is_enough);
            if is_enough {
                seen.retain(|flow| flow.1 != host);
            }
        }
    }

    /// A block ends within a lifetime after the last time at which many packets came against it.
    #[test]
    fn blocks_end_when_the_flood_does(packets in prop::collection::vec(0_u64..100, 1..300)) {
        let mut policy = policy(Scope::Source);
        let id = blocked(&mut policy, 0, "192.0.2.8");
        let mut last_s = 0;
        for (second, packets) in (2_u64..).step_by(2).zip(packets) {
            let now_us = second * SECOND_US;
            hear(&mut policy, now_us, tuple("192.0.2.8", 9), [packets, 0]);
            if packets > 0 {
                last_s = second;
            }
            if let Some(block) = policy.block(id) {
                prop_assert!(block.expires_us <= (last_s + 100) * SECOND_US);
            }
            policy.expire(now_us);
        }
    }
}
