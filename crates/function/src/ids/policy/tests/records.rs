//! Which records of a flow are enough to block it alone.

use super::{
    accused::{accusation, covers, policy, tuple},
    *,
};

const HOST: &str = "192.0.2.8";
const WITHIN_US: u64 = 10 * SECOND_US;

/// A malicious record of so many packets.
fn record(policy: &mut Policy, now_us: u64, port: u16, packets: u64) -> Decision {
    policy.accuse(now_us, Accusation { packets, ..accusation(HOST, port, now_us) }, why)
}

fn is_alone(policy: &Policy, decision: Decision, port: u16) -> bool {
    covers(policy, decision) == Target::of(&tuple(HOST, port), Scope::Flow)
}

#[test]
fn a_short_record_blocks_nothing_and_a_second_one_its_flow() {
    for scope in [Scope::Flow, Scope::Pair, Scope::Source] {
        let mut policy = policy(scope);
        for port in 1..=4 {
            assert_eq!(record(&mut policy, 0, port, 7), Decision::Noted);
        }
        let decision = record(&mut policy, WITHIN_US, 1, 1);
        assert!(is_alone(&policy, decision, 1));
        assert_eq!(policy.blocks().count(), 1);
    }
}

#[test]
fn a_record_of_many_packets_blocks_its_flow_at_once() {
    let mut policy = policy(Scope::Source);
    let decision = record(&mut policy, 0, 1, 8);
    assert!(is_alone(&policy, decision, 1));
}

#[test]
fn short_records_speak_against_their_source() {
    let mut policy = policy(Scope::Source);
    for port in 1..=4 {
        assert_eq!(record(&mut policy, 0, port, 1), Decision::Noted);
    }
    let decision = record(&mut policy, 0, 5, 1);
    assert_eq!(covers(&policy, decision), finding(HOST).target);
}

#[test]
fn a_flow_met_in_mid_stream_needs_a_second_record_even_where_one_flow_is_enough() {
    let mut policy = policy(Scope::Source);
    policy.evidence = Evidence::new(1, WITHIN_US, 8);
    let met = || Accusation { is_begun: false, packets: 2, ..accusation(HOST, 1, 0) };
    assert_eq!(policy.accuse(0, met(), why), Decision::Noted);
    assert!(matches!(policy.accuse(1, met(), why), Decision::Block(_)));
}

#[test]
fn records_far_apart_do_not_add_up() {
    let mut policy = policy(Scope::Source);
    for round in 0..50 {
        assert_eq!(record(&mut policy, round * (WITHIN_US + 1), 1, 7), Decision::Noted);
    }
}

#[test]
fn of_many_flows_with_one_record_the_oldest_is_forgotten() {
    let mut policy = policy(Scope::Flow);
    policy.records = Evidence::new(2, WITHIN_US, 100);
    for port in 1..=101 {
        assert_eq!(record(&mut policy, 0, port, 1), Decision::Noted);
    }
    assert!(matches!(record(&mut policy, 1, 2, 1), Decision::Block(_)), "it is remembered");
    assert_eq!(record(&mut policy, 1, 1, 1), Decision::Noted, "it was the oldest");
}

proptest! {
    /// A flow is blocked alone at a record of eight packets, or at the second one within the time, and never before.
    #[test]
    fn flows_are_blocked_by_enough_records(
        records in prop::collection::vec((0_u64..8_000_000, 1_u16..6, 1_u64..10), 1..100),
    ) {
        let mut policy = policy(Scope::Flow);
        let mut last = [None::<u64>; 6];
        let mut now_us = 0;
        for (pause_us, port, packets) in records {
            now_us += pause_us;
            policy.expire(now_us);
            let decision = record(&mut policy, now_us, port, packets);
            if decision == Decision::Known {
                continue;
            }
            let before = last[usize::from(port)].replace(now_us);
            let is_second = before.is_some_and(|before| before + WITHIN_US >= now_us);
            prop_assert_eq!(matches!(decision, Decision::Block(_)), is_second || packets >= 8);
        }
    }
}
