//! A validated configuration of a classifier, and the rules for each verdict.

use hawser_daemon::config::{FieldError, Invalid, typed};
use hawser_netdev::{
    routes,
    rules::{self, Action},
};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::document::{Document, Family, Rule};
use crate::{
    fields::{repeated, within},
    health::{Down, Verdict, check_functions, check_names},
};

/// A validated configuration.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration as written.
    pub(crate) document: Document,
    /// Rules of each path, each with its routing table.
    rules: Vec<Vec<(rules::Rule, u32)>>,
}

/// Parses a configuration. Reports all errors at once.
pub(crate) fn parse(value: &Value) -> Result<Plan, Invalid> {
    let document: Document = typed(value)?;
    let mut errors = check_functions(&document.functions);
    errors.extend(repeated(
        document.service_paths.iter().map(|path| path.name.clone()),
        "service_paths",
        "name",
    ));
    let mut all = Vec::new();
    for (at, path) in document.service_paths.iter().enumerate() {
        let place = format!("service_paths[{at}]");
        errors.extend(check_names(&document.functions, &path.functions, &place));
        let mut rules = Vec::new();
        for (number, rule) in path.rules.iter().enumerate() {
            match kernel_rule(rule) {
                Ok(known) => rules.push((known, rule.table)),
                Err(error) => errors.push(within(&format!("{place}.rules[{number}]"), error)),
            }
        }
        all.push(rules);
    }
    if errors.is_empty() { Ok(Plan { document, rules: all }) } else { Err(Invalid { errors }) }
}

fn kernel_rule(rule: &Rule) -> Result<rules::Rule, FieldError> {
    let prefix = |field: &str, text: &Option<String>| -> Result<Option<IpNet>, FieldError> {
        let Some(text) = text else { return Ok(None) };
        let found = rule.family.prefix(text).map(Some);
        found.ok_or_else(|| FieldError::new(field, text.as_str(), "a prefix of the rule's family"))
    };
    let ports = |field: &str, range: Option<(u16, u16)>| match range {
        Some((first, last)) if first > last || first == 0 => {
            let expected = "first and last port, from 1 up, in this order";
            Err(FieldError::new(field, json!([first, last]), expected))
        }
        range => Ok(range),
    };
    Ok(rules::Rule {
        family: match rule.family {
            Family::V4 => routes::Family::V4,
            Family::V6 => routes::Family::V6,
        },
        priority: rule.priority,
        source: prefix("source", &rule.source)?,
        destination: prefix("destination", &rule.destination)?,
        incoming: rule.incoming.clone(),
        protocol: rule.protocol,
        source_ports: ports("source_ports", rule.source_ports)?,
        destination_ports: ports("destination_ports", rule.destination_ports)?,
    })
}

/// A change of the kernel's rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Adds a rule, unless it exists.
    Add(rules::Rule, Action),
    /// Removes a rule, if it exists.
    Remove(rules::Rule, Action),
}

impl Plan {
    /// The verdict of each path.
    pub(crate) fn verdicts(&self, down: &Down) -> Vec<Verdict> {
        let paths = self.document.service_paths.iter();
        paths.map(|path| down.verdict(path.fail, &path.functions)).collect()
    }

    /// The changes that bring a path's rules from any state to this verdict. A new rule is added behind the old
    /// one before that is removed, so that one of them matches at any time.
    pub(crate) fn steps(&self, path: usize, verdict: Verdict) -> Vec<Step> {
        let rules = self.rules.get(path).map(Vec::as_slice).unwrap_or_default();
        let steps = |(rule, table): &(rules::Rule, u32)| {
            let add = |action| Step::Add(rule.clone(), action);
            let remove = |action| Step::Remove(rule.clone(), action);
            let (lookup, blackhole) = (Action::Lookup(*table), Action::Blackhole);
            match verdict {
                Verdict::Forward => [add(lookup), remove(blackhole)],
                Verdict::Drop => [add(blackhole), remove(lookup)],
                Verdict::Bypass => [remove(lookup), remove(blackhole)],
            }
        };
        rules.iter().flat_map(steps).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({
            "version": 1,
            "control": "classifier.sock",
            "functions": [{"name": "f", "instances": [
                {"name": "f", "checks": [{"by": {"process": {"pid_file": "f.pid"}}}]},
            ]}],
            "service_paths": [{"name": "c:forward", "fail": "open", "functions": ["f"], "rules": [
                {"priority": 1000, "table": 1001, "incoming": "in", "destination": "10.0.0.1/24", "protocol": 6},
            ]}],
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut document = document();
        change(&mut document);
        let invalid = parse(&document).unwrap_err();
        invalid.errors.iter().map(ToString::to_string).collect()
    }

    /// Rules of the kernel, in their order.
    type Kernel = Vec<(rules::Rule, Action)>;

    /// Applies steps; returns whether there was a rule after each.
    fn carry_out(kernel: &mut Kernel, steps: Vec<Step>) -> Vec<bool> {
        let one = |step| {
            match step {
                Step::Add(rule, action) if kernel.contains(&(rule.clone(), action)) => {}
                Step::Add(rule, action) => kernel.push((rule, action)),
                Step::Remove(rule, action) => {
                    kernel.retain(|known| *known != (rule.clone(), action));
                }
            }
            !kernel.is_empty()
        };
        steps.into_iter().map(one).collect()
    }

    #[test]
    fn a_rule_matches_at_any_time_while_rules_change() {
        let plan = parse(&document()).unwrap();
        let mut kernel = Kernel::new();
        carry_out(&mut kernel, plan.steps(0, Verdict::Forward));
        for (verdict, expected) in [
            (Verdict::Drop, Some(Action::Blackhole)),
            (Verdict::Drop, Some(Action::Blackhole)),
            (Verdict::Forward, Some(Action::Lookup(1001))),
            (Verdict::Bypass, None),
            (Verdict::Forward, Some(Action::Lookup(1001))),
        ] {
            let before = kernel.len();
            let covered = carry_out(&mut kernel, plan.steps(0, verdict));
            assert!(before == 0 || expected.is_none() || covered.iter().all(|covered| *covered));
            let actions: Vec<_> = kernel.iter().map(|(_, action)| *action).collect();
            assert_eq!(actions, Vec::from_iter(expected));
        }
    }

    #[test]
    fn each_mistake_has_its_place() {
        for (found, expected) in [
            (
                errors(|d| d["service_paths"][0]["functions"][0] = json!("g")),
                "service_paths[0].functions[0]: found \"g\", expected the name of a function",
            ),
            (
                errors(|d| d["service_paths"][0]["rules"][0]["destination"] = json!("fd00::/8")),
                "service_paths[0].rules[0].destination: found \"fd00::/8\", expected a prefix of the rule's",
            ),
            (
                errors(|d| d["service_paths"][0]["rules"][0]["source_ports"] = json!([2, 1])),
                "service_paths[0].rules[0].source_ports",
            ),
            (
                errors(|d| d["service_paths"][0]["rules"][0]["priority"] = json!(0)),
                "service_paths[0].rules[0].priority",
            ),
            (
                errors(|d| {
                    d["functions"][0]["instances"][0]["checks"][0]["by"] = json!({"ping": {}});
                }),
                "functions[0].instances[0].checks[0].by",
            ),
            (errors(|d| d["functions"][0]["instances"] = json!([])), "functions[0].instances"),
        ] {
            assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
        }
    }
}
