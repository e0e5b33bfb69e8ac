//! The rules of a firewall, in the kernel and in a file.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use hawser_bpf::{
    nsh::{self as bpf, Chain},
    rules::Match,
};
use hawser_daemon::config::{self, FieldError, Invalid, typed};
use serde_json::json;

use super::{
    document::{Action, Firewall, GuardRule, GuardRules},
    error::Error,
    fields::within,
    plan::to_match,
};

/// Rules and the file that stores them.
pub(crate) struct Rules {
    file: PathBuf,
    otherwise: bpf::Action,
    list: GuardRules,
}

impl Rules {
    /// Reads the rules from the file; none if it does not exist.
    pub(crate) fn open(firewall: &Firewall) -> Result<Self, Error> {
        let file = PathBuf::from(&firewall.rules_file);
        let list = match config::load(&file, typed::<GuardRules>) {
            Ok(list) => list,
            Err(config::Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                GuardRules::default()
            }
            Err(error) => {
                let place = "firewall.rules_file";
                let expected = format!("a file with rules ({error})");
                let found = firewall.rules_file.as_str();
                let errors = vec![FieldError::new(place, found, expected)];
                return Err(Invalid { errors }.into());
            }
        };
        let list = lasting(numbered(list)?, now_s());
        Ok(Self { file, otherwise: action(firewall.otherwise), list })
    }

    /// The active rules.
    pub(crate) fn list(&self) -> &GuardRules {
        &self.list
    }

    /// Installs them in the kernel.
    pub(crate) fn install(&self, chain: &mut Chain) -> Result<(), Error> {
        chain.guard(&matches(&self.list)?, self.otherwise).map_err(refused)
    }

    /// Whether the end of a rule has come.
    pub(crate) fn has_expired(&self) -> bool {
        let now_s = now_s();
        self.list.rules.iter().any(|rule| is_expired(rule, now_s))
    }

    /// Replaces the rules atomically and stores them, without those whose end has come. Nothing changes if this fails.
    pub(crate) fn replace(&mut self, chain: &mut Chain, list: GuardRules) -> Result<(), Error> {
        let list = lasting(numbered(list)?, now_s());
        let matches = matches(&list)?;
        let failed = |source| Error::File { path: self.file.clone(), source };
        let written = write_beside(&self.file, &list).map_err(failed)?;
        chain.guard(&matches, self.otherwise).map_err(refused)?;
        fs::rename(written, &self.file).map_err(failed)?;
        self.list = list;
        Ok(())
    }
}

/// Time since 1970, seconds.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn is_expired(rule: &GuardRule, now_s: u64) -> bool {
    rule.expires_s.is_some_and(|time| time <= now_s)
}

/// Gives rules with a lifetime their end, and leaves out those whose end has come.
fn lasting(mut list: GuardRules, now_s: u64) -> GuardRules {
    for rule in &mut list.rules {
        let lifetime = rule.lifetime_s.take().map(u64::from);
        rule.expires_s = lifetime.map(|lifetime| now_s + lifetime).or(rule.expires_s);
    }
    list.rules.retain(|rule| !is_expired(rule, now_s));
    list
}

/// Too many combinations are an error of the rules, not of the kernel.
fn refused(error: hawser_bpf::Error) -> Error {
    match error {
        hawser_bpf::Error::Rules(error) => {
            let errors = vec![FieldError::new("rules", serde_json::Value::Null, error.to_string())];
            Invalid { errors }.into()
        }
        error => error.into(),
    }
}

/// Writes the rules to a temporary file and syncs it; returns its name.
fn write_beside(file: &Path, list: &GuardRules) -> io::Result<PathBuf> {
    let beside = file.with_extension("new");
    let mut made = File::create(&beside)?;
    made.write_all(serde_json::to_string(list)?.as_bytes())?;
    made.sync_all()?;
    Ok(beside)
}

fn matches(list: &GuardRules) -> Result<Vec<(Match, bpf::Action)>, Invalid> {
    let (mut found, mut errors) = (Vec::with_capacity(list.rules.len()), Vec::new());
    for (at, rule) in list.rules.iter().enumerate() {
        match to_match(&rule.flows) {
            Ok(what) => found.push((what, action(rule.action))),
            Err(error) => errors.push(within(&format!("rules[{at}]"), error)),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(Invalid { errors }) }
}

fn action(action: Action) -> bpf::Action {
    match action {
        Action::Allow => bpf::Action::Allow,
        Action::Deny => bpf::Action::Deny,
    }
}

/// Assigns unique numbers to rules without one.
fn numbered(mut list: GuardRules) -> Result<GuardRules, Invalid> {
    let mut seen = HashSet::new();
    let known = list.rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.id?)));
    let twice = known
        .filter(|(_, id)| !seen.insert(*id))
        .map(|(at, id)| FieldError::new(&format!("rules[{at}].id"), json!(id), "a unique number"));
    let errors: Vec<_> = twice.collect();
    if !errors.is_empty() {
        return Err(Invalid { errors });
    }
    let mut free = (1..).filter(|id| !seen.contains(id));
    for rule in list.rules.iter_mut().filter(|rule: &&mut GuardRule| rule.id.is_none()) {
        rule.id = free.next();
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &serde_json::Value) -> Result<GuardRules, Invalid> {
        numbered(typed(&json!({ "rules": rules }))?)
    }

    #[test]
    fn rules_get_numbers_that_no_other_has() {
        let rules = json!([{"id": 2, "action": "deny"}, {"action": "allow"}, {"action": "deny"}]);
        let ids: Vec<_> = list(&rules).unwrap().rules.iter().map(|rule| rule.id).collect();
        assert_eq!(ids, [Some(2), Some(1), Some(3)]);
        let twice = list(&json!([{"id": 7, "action": "deny"}, {"id": 7, "action": "deny"}]));
        assert_eq!(twice.unwrap_err().errors[0].field, "rules[1].id");
    }

    #[test]
    fn a_rule_with_a_lifetime_ends() {
        let rules = json!([
            {"action": "deny", "lifetime_s": 10, "note": "scan"},
            {"action": "deny", "expires_s": 105},
            {"action": "allow"},
        ]);
        let ends = |list: &GuardRules| -> Vec<_> {
            list.rules.iter().map(|rule| (rule.lifetime_s, rule.expires_s)).collect()
        };
        let list = lasting(list(&rules).unwrap(), 100);
        assert_eq!(ends(&list), [(None, Some(110)), (None, Some(105)), (None, None)]);
        assert_eq!(ends(&lasting(list.clone(), 105)), [(None, Some(110)), (None, None)]);
        assert_eq!(ends(&lasting(list, 110)), [(None, None)]);
    }

    #[test]
    fn each_mistake_has_its_place() {
        let rules = json!([
            {"action": "deny"},
            {"source": "10.0", "action": "deny"},
            {"destination_ports": [2, 1], "action": "deny"},
        ]);
        let errors = matches(&list(&rules).unwrap()).unwrap_err().errors;
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["rules[1].source", "rules[2].destination_ports"]);
        let unknown = list(&json!([{"action": "deny", "colour": "red"}])).unwrap_err();
        assert_eq!(unknown.errors[0].field, "rules[0].colour");
    }
}
