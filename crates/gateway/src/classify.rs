//! Traffic class of packets and connections from this branch.

use std::net::SocketAddr;

use hawser_tunnel::config::Class;
use hawser_wire::{flow, ip, ipv4::protocol::TCP};

use crate::config::{
    Config,
    classifier::{Classifier, Type},
};

/// Class of a packet from this branch.
pub(crate) fn packet(packet: &ip::Packet<'_>, classifier: Option<&Classifier>) -> Class {
    let Some(classifier) = classifier else { return Class::II };
    let pair = (packet.source(), packet.destination());
    match classifier.classify(pair, packet.protocol(), flow::ports_of(packet), packet.dscp()) {
        Type::I => Class::I,
        Type::II | Type::III => Class::II, // no III here: docs/design/flow-placement.md
    }
}

/// Class, among those that use the TCP proxy, of a connection.
pub(crate) fn connection(config: &Config, client: SocketAddr, server: SocketAddr) -> Class {
    let (pair, ports) = ((client.ip(), server.ip()), Some((client.port(), server.port())));
    let kind = config.classifier.as_ref().map(|c| c.classify(pair, TCP, ports, 0));
    let class = if kind == Some(Type::I) { Class::I } else { Class::II };
    let takes = |class| config.document.transport.tcp_proxy.takes(class);
    // Whatever told them apart, such as a DSCP, may no longer be visible.
    match class {
        class if takes(class) => class,
        Class::I => Class::II,
        Class::II => Class::I,
    }
}
