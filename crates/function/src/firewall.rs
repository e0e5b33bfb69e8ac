//! The rules of a firewall, in the kernel and in a file.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use hawser_bpf::{
    nsh::{self as bpf, Chain},
    rules::Match,
};
use hawser_daemon::config::{self, FieldError, Invalid, typed};
use serde_json::json;

use super::{
    document::{self, Action, Firewall, GuardRules},
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
        Ok(Self { file, otherwise: action(firewall.otherwise), list: numbered(list)? })
    }

    /// The active rules.
    pub(crate) fn list(&self) -> &GuardRules {
        &self.list
    }

    /// Installs them in the kernel.
    pub(crate) fn install(&self, chain: &mut Chain) -> Result<(), Error> {
        chain.guard(&matches(&self.list)?, self.otherwise).map_err(refused)
    }

    /// Replaces the rules atomically and stores them. Nothing changes if this fails.
    pub(crate) fn replace(&mut self, chain: &mut Chain, list: GuardRules) -> Result<(), Error> {
        let list = numbered(list)?;
        let matches = matches(&list)?;
        let failed = |source| Error::File { path: self.file.clone(), source };
        let written = write_beside(&self.file, &list).map_err(failed)?;
        chain.guard(&matches, self.otherwise).map_err(refused)?;
        fs::rename(written, &self.file).map_err(failed)?;
        self.list = list;
        Ok(())
    }
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
    for rule in list.rules.iter_mut().filter(|rule: &&mut document::GuardRule| rule.id.is_none()) {
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
