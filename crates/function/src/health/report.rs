//! The health of functions in the control API.

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    document::Check,
    state::State,
    table::{Health, InstanceState},
};

/// A function's health.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FunctionHealth {
    pub(crate) name: String,
    /// At least one instance is up.
    pub(crate) up: bool,
    pub(crate) instances: Vec<InstanceHealth>,
}

/// An instance's health.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct InstanceHealth {
    pub(crate) name: String,
    /// All its checks are up.
    pub(crate) up: bool,
    /// Seconds since it went down or came up, or since the daemon started.
    pub(crate) since_s: f64,
    /// Number of times that it went down or came up.
    pub(crate) changes: u64,
    /// Why it is down.
    pub(crate) reason: Option<String>,
    pub(crate) checks: Vec<CheckHealth>,
}

/// The results of one check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CheckHealth {
    /// Kind of the check.
    pub(crate) by: &'static str,
    pub(crate) up: bool,
    /// Number of checks.
    pub(crate) checks: u64,
    /// Number of failed checks.
    pub(crate) failures: u64,
    /// Reason of the last failure.
    pub(crate) last_failure: Option<String>,
}

/// The health of all functions.
pub(crate) fn health(health: &Health, now: Instant) -> Vec<FunctionHealth> {
    let function = |(name, instances): &(String, Vec<InstanceState>)| FunctionHealth {
        name: name.clone(),
        up: instances.iter().any(InstanceState::is_up),
        instances: instances.iter().map(|each| instance(each, now)).collect(),
    };
    health.functions.iter().map(function).collect()
}

fn instance(instance: &InstanceState, now: Instant) -> InstanceHealth {
    InstanceHealth {
        name: instance.name.clone(),
        up: instance.is_up(),
        since_s: now.saturating_duration_since(instance.since).as_secs_f64(),
        changes: instance.changes,
        reason: instance.reason(),
        checks: instance.checks.iter().map(check).collect(),
    }
}

fn check((check, state): &(Check, State)) -> CheckHealth {
    CheckHealth {
        by: check.by.name(),
        up: state.is_up(),
        checks: state.checks,
        failures: state.failures,
        last_failure: state.reason.clone(),
    }
}
