//! What peers may reach: the fields `local` and `services`.

use hawser_tunnel::{Permissions, Service};
use hawser_wire::ipv4::protocol::{TCP, UDP};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Check;

/// A service of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceDocument {
    /// Its protocol; `any` opens everything.
    protocol: Protocol,
    /// Its port; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Protocol {
    Tcp,
    Udp,
    Any,
}

/// Reads both fields: prefixes, and services of the gateway itself.
pub(super) fn check(
    check: &mut Check,
    local: Option<&[String]>,
    services: &[ServiceDocument],
) -> Permissions {
    let local = local.map(|prefixes| {
        let numbered = prefixes.iter().enumerate();
        numbered.filter_map(|(i, text)| check.network(&format!("local[{i}]"), text)).collect()
    });
    let allowed = self::services(check, "services", services);
    if local.is_none() && !services.is_empty() {
        check.error("services", services.len(), "nothing, since without `local` all are open");
    }
    Permissions { local, services: allowed }
}

/// Reads a list of services.
pub(super) fn services(
    check: &mut Check,
    field: &str,
    services: &[ServiceDocument],
) -> Vec<Service> {
    let mut allowed = Vec::new();
    for (i, ServiceDocument { protocol, port }) in services.iter().enumerate() {
        allowed.push(match protocol {
            Protocol::Tcp => Service::Protocol(TCP, *port),
            Protocol::Udp => Service::Protocol(UDP, *port),
            Protocol::Any => Service::Any,
        });
        if let (Protocol::Any, Some(port)) = (protocol, port) {
            check.error(&format!("{field}[{i}].port"), *port, "no port with `any`");
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{
            parse,
            tests::{fields, sample},
        },
        *,
    };

    #[test]
    fn prefixes_and_services_are_read() {
        let mut document = sample();
        document["local"] = json!(["10.1.0.0/24", "2001:db8:1::/48"]);
        document["services"] = json!([{"protocol": "tcp", "port": 179}, {"protocol": "udp"}]);
        let permissions = parse(&document).unwrap().permissions;
        assert_eq!(permissions.local.unwrap().len(), 2);
        let services = [Service::Protocol(TCP, Some(179)), Service::Protocol(UDP, None)];
        assert_eq!(permissions.services, services);
        assert_eq!(parse(&sample()).unwrap().permissions, Permissions::default());
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let mut document = sample();
        document["services"] = json!([{"protocol": "tcp"}]);
        assert_eq!(fields(&document), ["services"]);
        document["local"] = json!(["10.1.0.0/24", "10.1.0.9/24"]);
        document["services"] = json!([{"protocol": "any", "port": 1}]);
        assert_eq!(fields(&document), ["local[1]", "services[0].port"]);
    }
}
