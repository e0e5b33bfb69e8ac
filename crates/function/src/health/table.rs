//! The health of all instances, and the decision that follows for each chain. No clock, no I/O.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use hawser_daemon::config::FieldError;

use super::{
    document::{Check, Fail, Function, Instance},
    state::State,
};
use crate::fields::repeated;

/// Position of a check in the table: function, instance, check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(pub(crate) usize, pub(crate) usize, pub(crate) usize);

/// The health of all functions.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) functions: Vec<(String, Vec<InstanceState>)>,
    /// Number of times that an instance went down or came up.
    changes: u64,
    /// How many of these changes the data plane has applied.
    applied: u64,
}

/// The health of an instance.
#[derive(Debug)]
pub(crate) struct InstanceState {
    pub(crate) name: String,
    pub(crate) checks: Vec<(Check, State)>,
    /// Number of times that it went down or came up.
    pub(crate) changes: u64,
    /// When it last did.
    pub(crate) since: Instant,
}

impl InstanceState {
    fn new(instance: &Instance, now: Instant) -> Self {
        let checks = instance.checks.iter().map(|check| (check.clone(), State::default()));
        Self { name: instance.name.clone(), checks: checks.collect(), changes: 0, since: now }
    }

    /// Whether all its checks are up.
    pub(crate) fn is_up(&self) -> bool {
        self.checks.iter().all(|(_, state)| state.is_up())
    }

    /// Why it is down.
    pub(crate) fn reason(&self) -> Option<String> {
        let (check, state) = self.checks.iter().find(|(_, state)| !state.is_up())?;
        Some(format!("{}: {}", check.by.name(), state.reason.as_deref().unwrap_or_default()))
    }
}

impl Health {
    /// All instances are up until checks say otherwise.
    pub(crate) fn new(functions: &[Function], now: Instant) -> Self {
        let of = |function: &Function| {
            function.instances.iter().map(|each| InstanceState::new(each, now)).collect()
        };
        let functions = functions.iter().map(|each| (each.name.clone(), of(each))).collect();
        Self { functions, changes: 0, applied: 0 }
    }

    /// All checks with their positions.
    pub(crate) fn checks(&self) -> Vec<(Place, Check)> {
        let mut all = Vec::new();
        for (f, (_, instances)) in self.functions.iter().enumerate() {
            for (i, instance) in instances.iter().enumerate() {
                let of = instance.checks.iter().enumerate();
                all.extend(of.map(|(c, (check, _))| (Place(f, i, c), check.clone())));
            }
        }
        all
    }

    /// Records the result of a check. Returns the instance if it went down or came up.
    pub(crate) fn observe(
        &mut self,
        place: Place,
        outcome: Result<(), String>,
        now: Instant,
    ) -> Option<&InstanceState> {
        let instance = self.functions.get_mut(place.0)?.1.get_mut(place.1)?;
        let before = instance.is_up();
        let (check, state) = instance.checks.get_mut(place.2)?;
        state.observe(check, outcome);
        if instance.is_up() == before {
            return None;
        }
        self.changes += 1;
        instance.changes += 1;
        instance.since = now;
        Some(instance)
    }

    /// Time until the next check.
    pub(crate) fn pause(&self, place: Place) -> Duration {
        let instance = self.functions.get(place.0).and_then(|(_, all)| all.get(place.1));
        let check = instance.and_then(|instance| instance.checks.get(place.2));
        check.map_or(Duration::MAX, |(check, state)| state.pause(check))
    }

    /// Notes that the data plane now avoids these.
    pub(crate) fn set_applied(&mut self, down: &Down) {
        self.applied = down.changes;
    }

    /// Whether the data plane avoids exactly what is down.
    pub(crate) fn is_applied(&self) -> bool {
        self.applied == self.changes
    }

    /// The functions and instances that are down.
    pub(crate) fn down(&self) -> Down {
        let mut down = Down { changes: self.changes, ..Down::default() };
        for (name, instances) in &self.functions {
            let gone = instances.iter().filter(|each| !each.is_up());
            down.instances.extend(gone.map(|each| each.name.clone()));
            if !instances.iter().any(InstanceState::is_up) {
                down.functions.insert(name.clone());
            }
        }
        down
    }
}

/// The functions and instances that are down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Down {
    instances: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// [`Health::changes`] at that time.
    changes: u64,
}

/// What is done with a chain's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are forwarded through its functions.
    Forward,
    /// They bypass the chain.
    Bypass,
    /// They are dropped.
    Drop,
}

impl Down {
    /// Whether this instance is down.
    pub(crate) fn instance(&self, name: &str) -> bool {
        self.instances.contains(name)
    }

    /// What is done with the packets of a chain with these functions.
    pub(crate) fn verdict(&self, fail: Fail, functions: &[String]) -> Verdict {
        if !functions.iter().any(|name| self.functions.contains(name)) {
            return Verdict::Forward;
        }
        match fail {
            Fail::Closed => Verdict::Drop,
            Fail::Open => Verdict::Bypass,
        }
    }
}

/// Validates the configured functions.
pub(crate) fn check_functions(functions: &[Function]) -> Vec<FieldError> {
    let mut errors = repeated(functions.iter().map(|each| each.name.clone()), "functions", "name");
    let mut seen = BTreeSet::new();
    for (f, function) in functions.iter().enumerate() {
        for (i, instance) in function.instances.iter().enumerate() {
            if !seen.insert(instance.name.as_str()) {
                let place = format!("functions[{f}].instances[{i}].name");
                let expected = "another name than those of other instances";
                errors.push(FieldError::new(&place, instance.name.as_str(), expected));
            }
        }
    }
    errors
}

/// Reports names in a path's `functions` that are not configured.
pub(crate) fn check_names(
    functions: &[Function],
    names: &[String],
    place: &str,
) -> Vec<FieldError> {
    let unknown = |name: &str| !functions.iter().any(|function| function.name == name);
    let wrong = names.iter().enumerate().filter(|(_, name)| unknown(name));
    let error = |(at, name): (usize, &String)| {
        let place = format!("{place}.functions[{at}]");
        FieldError::new(&place, name.as_str(), "the name of a function")
    };
    wrong.map(error).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;

    fn functions(instances: &[usize]) -> Vec<Function> {
        let check = json!({"by": {"tcp": {"address": "192.0.2.1:80"}}, "rise": 1, "fall": 1});
        let instance =
            |f: usize, i: usize| json!({"name": format!("f{f}-{i}"), "checks": [check, check]});
        let function = |(f, count): (usize, &usize)| {
            let all: Vec<_> = (0..*count).map(|i| instance(f, i)).collect();
            from_value(json!({"name": format!("f{f}"), "instances": all})).unwrap()
        };
        instances.iter().enumerate().map(function).collect()
    }

    #[test]
    fn an_instance_is_up_when_all_its_checks_are() {
        let now = Instant::now();
        let mut health = Health::new(&functions(&[1]), now);
        let mut observe = |check, up: bool| {
            let outcome = if up { Ok(()) } else { Err("refused".to_owned()) };
            let changed = health.observe(Place(0, 0, check), outcome, now);
            changed.map(|instance| (instance.is_up(), instance.reason()))
        };
        assert_eq!(observe(0, false), Some((false, Some("tcp: refused".into()))));
        assert_eq!(observe(1, false), None);
        assert_eq!(observe(0, true), None);
        assert_eq!(observe(1, true), Some((true, None)));
        assert_eq!(health.functions[0].1[0].changes, 2);
        assert!(!health.is_applied());
        health.set_applied(&health.down());
        assert!(health.is_applied());
    }

    proptest! {
        /// A chain forwards exactly while each of its functions has an instance that is up.
        #[test]
        fn a_chain_fails_with_the_last_instance_of_a_function(
            counts in proptest::collection::vec(1_usize..4, 1..4),
            gone in proptest::collection::vec(any::<bool>(), 12),
            passes in proptest::collection::vec(any::<bool>(), 4),
        ) {
            let now = Instant::now();
            let all = functions(&counts);
            let mut health = Health::new(&all, now);
            let dead = |f: usize, i: usize| gone[3 * f + i];
            for (f, count) in counts.iter().enumerate() {
                for i in (0..*count).filter(|i| dead(f, *i)) {
                    health.observe(Place(f, i, 0), Err(String::new()), now);
                }
            }
            let down = health.down();
            let path: Vec<_> = (0..counts.len()).filter(|f| passes[*f]).collect();
            let broken = path.iter().any(|f| (0..counts[*f]).all(|i| dead(*f, i)));
            let names: Vec<_> = path.iter().map(|f| format!("f{f}")).collect();
            let expected = |otherwise| if broken { otherwise } else { Verdict::Forward };
            prop_assert_eq!(down.verdict(Fail::Open, &names), expected(Verdict::Bypass));
            prop_assert_eq!(down.verdict(Fail::Closed, &names), expected(Verdict::Drop));
            for (f, count) in counts.iter().enumerate() {
                for i in 0..*count {
                    prop_assert_eq!(down.instance(&format!("f{f}-{i}")), dead(f, i));
                }
            }
        }
    }
}
