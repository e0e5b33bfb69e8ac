//! A valid configuration: names resolved to places, values to those of a channel.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hawser_impair::{self as impair, Profile, Rate, Trace};
use ipnet::IpNet;
use serde_json::Value;

use super::document::{self, Carries, Direction, Distribution, Document, Loss};
use crate::config::{FieldError, Invalid, typed};

/// What the event loop needs to know of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Of all chance.
    pub(crate) seed: u64,
    /// For packets under way.
    pub(crate) buffer_bytes: u64,
    /// In the order of the configuration; its place is its number.
    pub(crate) wires: Vec<document::Wire>,
    /// In the order in which they take packets.
    pub(crate) paths: Vec<Path>,
}

/// What happens to certain packets of one direction of a wire.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Its name.
    pub(crate) name: String,
    /// Number of its wire.
    pub(crate) wire: usize,
    /// The wire's direction.
    pub(crate) direction: Direction,
    /// Source prefix of its packets.
    pub(crate) source: Option<IpNet>,
    /// Destination prefix of its packets.
    pub(crate) destination: Option<IpNet>,
    /// What happens.
    pub(crate) profile: Profile,
}

/// Parses a configuration, naming everything that is wrong with it.
pub(crate) fn parse(value: &Value) -> Result<(Document, Plan), Invalid> {
    let document: Document = typed(value)?;
    let plan = resolve(&document)?;
    Ok((document, plan))
}

/// Makes a plan of a configuration that has the right form.
fn resolve(document: &Document) -> Result<Plan, Invalid> {
    let mut errors = duplicates(document);
    let wires: HashMap<&str, (usize, &document::Wire)> = document
        .wires
        .iter()
        .enumerate()
        .map(|(at, wire)| (wire.name.as_str(), (at, wire)))
        .collect();
    let mut paths = Vec::new();
    for (number, path) in document.paths.iter().enumerate() {
        match resolve_path(path, &wires) {
            Ok(path) => paths.push(path),
            Err(error) => errors.push(within(&format!("paths[{number}]"), error)),
        }
    }
    if !errors.is_empty() {
        return Err(Invalid { errors });
    }
    Ok(Plan {
        seed: document.seed,
        buffer_bytes: document.buffer_bytes,
        wires: document.wires.clone(),
        paths,
    })
}

fn within(place: &str, error: FieldError) -> FieldError {
    FieldError { field: format!("{place}.{}", error.field), ..error }
}

/// Names and interfaces that stand twice.
fn duplicates(document: &Document) -> Vec<FieldError> {
    let wires = document.wires.iter().enumerate();
    let names = wires.clone().map(|(at, wire)| (format!("wires[{at}].name"), wire.name.as_str()));
    let ends = wires.flat_map(|(at, wire)| {
        [
            (format!("wires[{at}].ends[0]"), wire.ends.0.0.as_str()),
            (format!("wires[{at}].ends[1]"), wire.ends.1.0.as_str()),
        ]
    });
    let paths = document.paths.iter().enumerate();
    let paths = paths.map(|(at, path)| (format!("paths[{at}].name"), path.name.as_str()));
    [repeated(names), repeated(ends), repeated(paths)].concat()
}

fn repeated<'a>(named: impl Iterator<Item = (String, &'a str)>) -> Vec<FieldError> {
    let mut first: HashMap<&str, String> = HashMap::new();
    let mut errors = Vec::new();
    for (place, name) in named {
        if let Some(earlier) = first.get(name) {
            errors.push(FieldError::new(&place, name, format!("another than {earlier}")));
        } else {
            first.insert(name, place);
        }
    }
    errors
}

fn resolve_path(
    path: &document::Path,
    wires: &HashMap<&str, (usize, &document::Wire)>,
) -> Result<Path, FieldError> {
    let Some((number, wire)) = wires.get(path.wire.as_str()) else {
        return Err(FieldError::new("wire", path.wire.as_str(), "the name of a wire"));
    };
    let carried = match path.direction {
        Direction::Forward => wire.carries != Carries::Reverse,
        Direction::Reverse => wire.carries != Carries::Forward,
    };
    if !carried {
        let found = serde_json::to_value(path.direction).unwrap_or_default();
        return Err(FieldError::new("direction", found, "a direction that the wire carries"));
    }
    Ok(Path {
        name: path.name.clone(),
        wire: *number,
        direction: path.direction,
        source: prefix("source", path.source.as_deref())?,
        destination: prefix("destination", path.destination.as_deref())?,
        profile: profile(path)?,
    })
}

fn prefix(field: &str, text: Option<&str>) -> Result<Option<IpNet>, FieldError> {
    text.map(|text| {
        text.parse().map_err(|_| FieldError::new(field, text, "a prefix such as 10.1.0.0/24"))
    })
    .transpose()
}

fn profile(path: &document::Path) -> Result<Profile, FieldError> {
    Ok(Profile {
        bottleneck: path.bottleneck.as_ref().map(bottleneck).transpose()?,
        loss: path.loss.map(loss).transpose()?.unwrap_or_default(),
        delay: span("delay_us", path.delay_us)?,
        jitter: path.jitter.map(jitter).transpose()?,
        duplication: probability("duplication", path.duplication)?,
        reordering: path.reordering.map(reordering).transpose()?,
    })
}

fn bottleneck(found: &document::Bottleneck) -> Result<impair::Bottleneck, FieldError> {
    let service = match (found.rate_bit_per_s, &found.trace) {
        (Some(rate), None) => constant(rate)?,
        (None, Some(text)) => trace(text)?,
        _ => {
            let expected = "either `rate_bit_per_s` or `trace`";
            return Err(FieldError::new(
                "bottleneck",
                serde_json::to_value(found).unwrap_or_default(),
                expected,
            ));
        }
    };
    Ok(impair::Bottleneck { service, queue: found.queue_bytes })
}

fn constant(rate: u64) -> Result<impair::Service, FieldError> {
    Rate::from_bits_per_second(rate)
        .map(impair::Service::Constant)
        .map_err(|_| FieldError::new("bottleneck.rate_bit_per_s", rate, "1 to 1000000000000"))
}

fn trace(text: &str) -> Result<impair::Service, FieldError> {
    let shown: String = text.chars().take(40).collect();
    Trace::parse(text)
        .map(|trace| impair::Service::Trace(Arc::new(trace)))
        .map_err(|error| FieldError::new("bottleneck.trace", shown, format!("a trace ({error})")))
}

fn jitter(found: document::Jitter) -> Result<impair::Jitter, FieldError> {
    Ok(impair::Jitter {
        deviation: span("jitter.deviation_us", found.deviation_us)?,
        distribution: match found.distribution {
            Distribution::Normal => impair::Distribution::Normal,
            Distribution::Uniform => impair::Distribution::Uniform,
            Distribution::Pareto => impair::Distribution::Pareto,
        },
        correlation: probability("jitter.correlation", found.correlation)?,
        reorders: found.reorders,
    })
}

fn loss(found: Loss) -> Result<impair::Loss, FieldError> {
    Ok(match found {
        Loss::Bernoulli { probability: share } => {
            impair::Loss::Bernoulli(probability("loss.probability", share)?)
        }
        Loss::GilbertElliott { to_bad, to_good, good, bad } => {
            impair::Loss::GilbertElliott(impair::GilbertElliott {
                to_bad: probability("loss.to_bad", to_bad)?,
                to_good: probability("loss.to_good", to_good)?,
                good: probability("loss.good", good)?,
                bad: probability("loss.bad", bad)?,
            })
        }
    })
}

fn reordering(found: document::Reordering) -> Result<impair::Reordering, FieldError> {
    Ok(impair::Reordering {
        share: probability("reordering.share", found.share)?,
        by: span("reordering.by_us", found.by_us)?,
    })
}

fn probability(
    field: &str,
    found: document::Probability,
) -> Result<impair::Probability, FieldError> {
    impair::Probability::new(found.0)
        .map_err(|_| FieldError::new(field, found.0, "a number from 0 to 1"))
}

fn span(field: &str, micros: f64) -> Result<Duration, FieldError> {
    Duration::try_from_secs_f64(micros / 1e6)
        .map_err(|_| FieldError::new(field, micros, "microseconds, zero or more"))
}
