//! The resolved configuration: names of wires as indices, impairments as profiles of channels.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hawser_daemon::{
    config::{FieldError, Invalid, typed},
    renamed::{Renamed, accept_old_names},
};
use hawser_impair::{self as impair, Profile, Rate, Trace};
use ipnet::IpNet;
use serde_json::Value;

use super::document::{self, Carries, Direction, Distribution, Document, Loss};

/// Configuration of the event loop.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Seed of all random streams.
    pub(crate) seed: u64,
    /// Memory for packets in flight, bytes.
    pub(crate) buffer_bytes: u64,
    /// Wires, in the order of the configuration.
    pub(crate) wires: Vec<document::Wire>,
    /// Paths, in the order in which they are matched.
    pub(crate) paths: Vec<Path>,
}

/// Impairments of certain packets of one direction of a wire.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Its name.
    pub(crate) name: String,
    /// Index of its wire.
    pub(crate) wire: usize,
    /// The wire's direction.
    pub(crate) direction: Direction,
    /// Source prefix of its packets.
    pub(crate) source: Option<IpNet>,
    /// Destination prefix of its packets.
    pub(crate) destination: Option<IpNet>,
    /// The impairments.
    pub(crate) profile: Profile,
}

/// Old names of fields, accepted in this version: in a configuration, and in one of its paths.
const RENAMED: [Renamed; 1] =
    [Renamed { object: "paths[].reordering", old: "by_us", new: "extra_delay_us" }];
pub(crate) const RENAMED_IN_PATH: [Renamed; 1] = [Renamed { object: "reordering", ..RENAMED[0] }];

/// Parses a configuration. The error lists all invalid fields.
pub(crate) fn parse(value: &Value) -> Result<(Document, Plan), Invalid> {
    let document: Document = typed(&accept_old_names(value, &RENAMED))?;
    let plan = resolve(&document)?;
    Ok((document, plan))
}

/// Resolves a configuration that conforms to the schema.
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

/// Errors about names and interfaces that occur twice.
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
        by: span("reordering.extra_delay_us", found.extra_delay_us)?,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn document(path: &Value) -> Value {
        json!({
            "version": 1,
            "control": "wan.sock",
            "wires": [{"name": "w", "ends": ["a", "b"], "carries": "forward"}],
            "paths": [path],
        })
    }

    fn path(field: &str, value: &Value) -> Value {
        let mut path = json!({"name": "p", "wire": "w", "direction": "forward"});
        path[field] = value.clone();
        path
    }

    fn wrong(path: &Value) -> Vec<String> {
        parse(&document(path)).unwrap_err().errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_have_no_effect() {
        let (_, plan) = parse(&document(&path("source", &Value::Null))).unwrap();
        let profile = &plan.paths[0].profile;
        assert_eq!(profile.delay, Duration::ZERO);
        assert!(profile.bottleneck.is_none() && profile.jitter.is_none());
        assert_eq!(profile.loss, impair::Loss::None);
    }

    #[test]
    fn every_value_is_resolved() {
        let (_, plan) = parse(&document(&json!({
            "name": "p", "wire": "w", "direction": "forward",
            "source": "10.0.0.0/8", "destination": "2001:db8::/32",
            "bottleneck": {"rate_bit_per_s": 1_000_000, "queue_bytes": 5000},
            "delay_us": 1500.5,
            "jitter": {"deviation_us": 10, "distribution": "pareto", "correlation": 0.5, "reorders": true},
            "loss": {"model": "gilbert_elliott", "to_bad": 0.1, "to_good": 0.2},
            "duplication": 0.3,
            "reordering": {"share": 0.4, "extra_delay_us": 20},
        })))
        .unwrap();
        let profile = &plan.paths[0].profile;
        assert_eq!(profile.delay, Duration::from_nanos(1_500_500));
        assert_eq!(profile.bottleneck.as_ref().unwrap().queue, 5000);
        assert!(profile.jitter.unwrap().reorders);
        let impair::Loss::GilbertElliott(chain) = profile.loss else { panic!("another model") };
        assert_eq!((chain.good, chain.bad), (impair::Probability::ZERO, impair::Probability::ONE));
        assert_eq!(profile.reordering.unwrap().by, Duration::from_micros(20));
    }

    #[test]
    fn an_old_name_is_accepted() {
        let with = |name: &str| document(&path("reordering", &json!({"share": 0.1, name: 7})));
        let (shown, plan) = parse(&with("by_us")).unwrap();
        assert_eq!(plan.paths[0].profile.reordering.unwrap().by, Duration::from_micros(7));
        assert_eq!(shown, parse(&with("extra_delay_us")).unwrap().0);
    }

    #[test]
    fn errors_name_the_field() {
        for (field, value, expected) in [
            ("delay_us", json!(-1), "paths[0].delay_us: found -1, expected at least 0"),
            ("duplication", json!(1.01), "paths[0].duplication: found 1.01, expected at most 1"),
            (
                "loss",
                json!({"model": "bernoulli", "probability": 1.5}),
                "paths[0].loss.probability: found 1.5, expected at most 1",
            ),
            (
                "bottleneck",
                json!({"rate_bit_per_s": 0, "queue_bytes": 1}),
                "paths[0].bottleneck.rate_bit_per_s: found 0, expected at least 1",
            ),
            ("source", json!("10.0.0.1/33"), "expected a prefix such as 10.1.0.0/24"),
            ("wire", json!("x"), "paths[0].wire: found \"x\", expected the name of a wire"),
            ("direction", json!("reverse"), "expected a direction that the wire carries"),
            ("speed", json!(1), "paths[0].speed: found 1, expected no field of this name"),
        ] {
            let found = wrong(&path(field, &value));
            assert!(found.iter().any(|text| text.contains(expected)), "{field}: {found:?}");
        }
    }

    #[test]
    fn a_bottleneck_has_one_service() {
        for bottleneck in [
            json!({"queue_bytes": 1}),
            json!({"queue_bytes": 1, "rate_bit_per_s": 1, "trace": "1"}),
        ] {
            let found = wrong(&path("bottleneck", &bottleneck));
            assert!(found[0].contains("either `rate_bit_per_s` or `trace`"), "{found:?}");
        }
        let found = wrong(&path("bottleneck", &json!({"queue_bytes": 1, "trace": "5\n4\n"})));
        assert!(found[0].contains("line 2: found 4 ms after 5 ms"), "{found:?}");
    }

    #[test]
    fn names_must_be_unique() {
        let mut twice = document(&path("delay_us", &json!(1)));
        let first = twice["paths"][0].clone();
        twice["paths"].as_array_mut().unwrap().push(first);
        let errors = parse(&twice).unwrap_err().errors;
        assert_eq!(
            errors[0].to_string(),
            "paths[1].name: found \"p\", expected another than paths[0].name"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z0-9./:\\n]{0,12}".prop_map(Value::from),
        ];
        let keys = prop_oneof![
            Just("loss"),
            Just("model"),
            Just("probability"),
            Just("jitter"),
            Just("deviation_us"),
            Just("bottleneck"),
            Just("trace"),
            Just("queue_bytes"),
            Just("extra_delay_us"),
            Just("share"),
        ];
        leaf.prop_recursive(3, 32, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(keys.clone().prop_map(String::from), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_document_is_a_plan_or_a_list_of_errors(
            field in prop_oneof![
                Just("delay_us"), Just("jitter"), Just("loss"), Just("duplication"), Just("source"),
                Just("reordering"), Just("bottleneck"), Just("direction"), Just("name"),
            ],
            value in any_json(),
        ) {
            match parse(&document(&path(field, &value))) {
                Ok((_, plan)) => prop_assert_eq!(plan.paths.len(), 1),
                Err(invalid) => prop_assert!(!invalid.errors.is_empty()),
            }
            let _ = parse(&value);
        }
    }
}
