//! The ports of a path are its label, in both layouts.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a failure is a panic

use std::net::IpAddr;

use hawser_sim::gateways::OPTIONS;
use hawser_tunnel::{
    PathId, Permissions, Purpose, Socket,
    config::{Class, Config, Group, Path, Peer, Placement},
};
use hawser_wire::{
    label::wide::{Direction, Label, Layout},
    tunnel::OwnAddresses,
};

/// The socket of branch `own` for a path to branch `other`.
fn socket(labels: Layout, own: u16, other: u16) -> Socket {
    let address = |id: u16| IpAddr::from([198, 18, 0, if id == 1 { 1 } else { 2 }]);
    let (local, remote) = (Some(address(own)), Some(address(other)));
    let path = Path { local, remote, ..Path::default() };
    let groups = vec![Group::new(labels.group_max(), Class::II, vec![path])];
    let config = Config {
        branch: "own".into(),
        id: own,
        labels,
        permissions: Permissions::default(),
        own: OwnAddresses { v4: None, v6: None },
        queue_bytes: 1_000_000,
        placement: Placement::default(),
        max_rate_bps: [None; 2],
        options: OPTIONS,
        rendezvous: None,
        peers: vec![Peer { branch: "other".into(), id: other, prefixes: Vec::new(), groups }],
    };
    config.sockets()[0]
}

#[test]
fn both_ends_of_a_path_have_the_ports_of_its_label() {
    for labels in Layout::ALL {
        let (last, group) = (labels.branch_max(), labels.group_max());
        let (connector, listener) = (socket(labels, 1, last), socket(labels, last, 1));
        let path = PathId { peer: last, group, member: 0 };
        assert_eq!(connector.purpose, Purpose::Connector { path, remote: listener.address });
        assert_eq!(listener.purpose, Purpose::Listener { group });
        let label = Label::new(labels, last, 1, 1, group).unwrap();
        let ports = (connector.address.port(), listener.address.port());
        assert_eq!(label.ports(Direction::Forward), ports);
    }
}
