use std::net::IpAddr;

use proptest::prelude::*;
use serde_json::Map;

use super::*;

mod accused;
mod records;

const LIFETIME_US: u64 = 10 * SECOND_US;

fn settings() -> Verdicts {
    let text = r#"{"firewalls": [{"address": "127.0.0.1:1", "token_file": "t"}], "blocks_file": "b",
        "lifetime_s": 10, "per_minute": 3, "blocks_max": 8, "allow": ["10.1.0.0/16", "192.0.2.7", "2001:db8::/32"]}"#;
    serde_json::from_str(text).unwrap()
}

fn policy() -> Policy {
    Policy::new(settings(), Vec::new(), 7)
}

fn finding(source: &str) -> Finding {
    let target = Target {
        source: source.parse().unwrap(),
        destination: None,
        protocol: None,
        source_port: None,
        destination_port: None,
    };
    Finding { target, flow: "r-1".into(), first_us: 0 }
}

fn why() -> Why {
    let (score, threshold, reason) = (Some(0.9), Some(0.5), None);
    let (branch, features) = (Vec::new(), Map::new());
    Why { by: "m 1".into(), score, threshold, reason, branch, features, flows: 1 }
}

fn decide(policy: &mut Policy, now_us: u64, source: &str) -> Decision {
    policy.decide(now_us, &finding(source), why)
}

fn block(decision: Decision) -> u64 {
    let Decision::Block(id) = decision else { panic!("{decision:?}") };
    id
}

#[test]
fn no_verdict_overrides_the_allow_list() {
    let mut policy = policy();
    for source in ["10.1.2.3", "192.0.2.7", "::ffff:10.1.2.3", "2001:db8::1"] {
        assert_eq!(decide(&mut policy, 0, source), Decision::Allowed, "{source}");
    }
    assert!(matches!(decide(&mut policy, 0, "192.0.2.8"), Decision::Block(_)));
    assert_eq!(policy.blocks().count(), 1);
}

#[test]
fn a_verdict_of_another_program_renews_its_block() {
    let mut policy = policy();
    let id = block(decide(&mut policy, 0, "192.0.2.8"));
    assert_eq!(decide(&mut policy, LIFETIME_US / 2 - 1, "192.0.2.8"), Decision::Known);
    assert_eq!(decide(&mut policy, LIFETIME_US / 2, "192.0.2.8"), Decision::Renew(id));
    assert_eq!(policy.expire(LIFETIME_US), 0);
    assert_eq!(policy.block(id).unwrap().renewals, 1);
    assert_eq!(policy.expire(LIFETIME_US * 3 / 2), 1);
    assert_ne!(block(decide(&mut policy, LIFETIME_US * 2, "192.0.2.8")), id);
}

#[test]
fn a_flood_of_verdicts_is_limited() {
    let mut policy = policy();
    let decisions: Vec<_> =
        (1..=5).map(|n| decide(&mut policy, n, &format!("192.0.2.{}", 10 + n))).collect();
    assert!(decisions[..3].iter().all(|decision| matches!(decision, Decision::Block(_))));
    assert_eq!(decisions[3..], [Decision::Limited; 2]);
    assert!(matches!(decide(&mut policy, MINUTE_US + 1, "192.0.2.99"), Decision::Block(_)));
}

#[test]
fn what_was_taken_back_is_not_blocked_again_at_once() {
    let mut policy = policy();
    let id = block(decide(&mut policy, 0, "192.0.2.8"));
    assert_eq!(policy.take_back(1, id).unwrap().id, id);
    assert!(policy.take_back(1, id).is_none());
    assert_eq!(decide(&mut policy, 2, "192.0.2.8"), Decision::Pardoned);
    let later = 1 + LIFETIME_US;
    assert!(matches!(decide(&mut policy, later, "192.0.2.8"), Decision::Block(_)));
}

#[test]
fn a_block_is_in_force_when_all_firewalls_have_it() {
    let mut two = settings();
    two.firewalls.push(two.firewalls[0].clone());
    let mut policy = Policy::new(two, Vec::new(), 7);
    let id = block(decide(&mut policy, 0, "192.0.2.8"));
    policy.report(id, "no answer".into(), false);
    policy.confirm(5, id, 1);
    let state = |policy: &Policy| {
        let block = policy.block(id).unwrap();
        (block.state, block.told_us, block.error.clone())
    };
    assert_eq!(state(&policy), (State::Pending, None, Some("no answer".into())));
    policy.confirm(9, id, 0);
    assert_eq!(state(&policy), (State::InForce, Some(9), None));
}

#[test]
fn stored_blocks_are_known_again() {
    let mut policy = policy();
    let id = block(decide(&mut policy, 0, "192.0.2.8"));
    let stored = policy.blocks().cloned().collect();
    let mut restarted = Policy::new(settings(), stored, 8);
    assert_eq!(decide(&mut restarted, 1, "192.0.2.8"), Decision::Known);
    assert_eq!(restarted.block(id), policy.block(id));
}

proptest! {
    /// Whatever comes, blocks are few, none of them is of an allowed source, and no minute has too many.
    #[test]
    fn limits_hold(verdicts in prop::collection::vec((0_u64..400_000_000, 0_u8..40, 0_u8..3), 1..200)) {
        let mut policy = policy();
        let mut verdicts = verdicts;
        verdicts.sort_unstable();
        let mut orders = Vec::new();
        for (now_us, host, kind) in verdicts {
            let network = if host % 2 == 0 { "10.1.0" } else { "192.0.2" };
            match kind {
                0 => { policy.expire(now_us); }
                1 => {
                    let first = policy.blocks().next().map(|block| block.id);
                    first.map(|id| policy.take_back(now_us, id));
                }
                _ => match decide(&mut policy, now_us, &format!("{network}.{host}")) {
                    Decision::Block(_) | Decision::Renew(_) => orders.push(now_us),
                    _ => {}
                },
            }
            let minute = orders.iter().filter(|time| **time + MINUTE_US > now_us);
            prop_assert!(minute.count() <= 3);
            prop_assert!(policy.blocks().count() <= 8);
            let allowed: IpNet = "10.1.0.0/16".parse().unwrap();
            let is_allowed = |source: IpAddr| allowed.contains(&source);
            prop_assert!(!policy.blocks().any(|block| is_allowed(block.target.source)));
        }
    }
}
