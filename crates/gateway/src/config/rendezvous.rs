//! The rendezvous: the branch that introduces gateways behind NATs to each other.

use serde_json::Value;

use super::{
    check::Check,
    document::Document,
    ends::{Ends, Remote},
    transport::Kind,
};

/// Whether the rendezvous may introduce a peer, so that its paths need no remote address.
pub(super) fn may_introduce(own: &Document, peer: &str) -> bool {
    let other = |name: &String| *name != own.branch && name != peer;
    own.transport.kind == Kind::Quic && own.rendezvous.as_ref().is_some_and(other)
}

/// Number of the branch that is the rendezvous.
pub(super) fn check(check: &mut Check, document: &Document, ends: &[Ends]) -> Option<u16> {
    let name = document.rendezvous.as_deref()?;
    if document.transport.kind != Kind::Quic {
        check.error("rendezvous", name, "nothing, since only quic has one");
        return None;
    }
    if name == document.branch {
        return Some(document.id);
    }
    let Some(peer) = document.peers.iter().find(|peer| peer.branch == name) else {
        check.error("rendezvous", name, "this branch or a peer");
        return None;
    };
    if peer.id < document.id {
        let expected = "a peer with a higher number than this branch, which then connects to it";
        check.error("rendezvous", name, expected);
        return None;
    }
    for (i, other) in document.peers.iter().enumerate() {
        let introduced = other.id > document.id && other.id != peer.id;
        for (j, group) in other.groups.iter().enumerate().filter(|_| introduced) {
            let of_group = |end: &&Ends| (end.path.peer, end.path.group) == (other.id, group.id);
            for end in ends.iter().filter(of_group) {
                let same = |to: &Ends| {
                    let local = (&to.interface, to.local) == (&end.interface, end.local);
                    local && (to.path.peer, to.path.member) == (peer.id, end.path.member)
                };
                if end.remote == Remote::Unknown && !ends.iter().any(same) {
                    let member = end.path.member;
                    let field = format!("peers[{i}].groups[{j}].paths[{member}].remote");
                    let expected = format!(
                        "an address or name, or a path {member} to {name} from the same local end"
                    );
                    check.error(&field, Value::Null, &expected);
                }
            }
        }
    }
    Some(peer.id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::config::{parse, tests::sample};

    /// A branch with an interface, a peer that is to be introduced, and one with an address.
    fn document(own: u16, rendezvous: &str, interface: &str) -> Value {
        let mut document = sample();
        document["id"] = own.into();
        document["rendezvous"] = rendezvous.into();
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "quic", "tls": tls});
        let peer = |id: u16, path: Value| {
            json!({"branch": format!("b{id}"), "id": id, "prefixes": [format!("10.{id}.0.0/24")],
                   "groups": [{"id": 0, "paths": [path]}]})
        };
        let public = peer(9, json!({"interface": interface, "remote": "192.0.2.1"}));
        document["peers"] = json!([peer(2, json!({"interface": "wan0"})), public]);
        document
    }

    fn fields(document: &Value) -> Vec<String> {
        match parse(document) {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid.errors.into_iter().map(|error| error.field).collect(),
        }
    }

    #[test]
    fn a_peer_that_is_introduced_needs_no_address() {
        let config = parse(&document(1, "b9", "wan0")).unwrap();
        assert_eq!(config.rendezvous, Some(9));
        assert_eq!(parse(&document(3, "b9", "wan1")).unwrap().rendezvous, Some(9), "it listens");
    }

    #[test]
    fn a_rendezvous_must_see_the_local_end() {
        let remote = "peers[0].groups[0].paths[0].remote";
        assert_eq!(fields(&document(1, "b9", "wan1")), [remote]);
        assert_eq!(
            fields(&document(1, "b1", "wan0")),
            [remote],
            "nobody introduces the rendezvous"
        );
        assert_eq!(fields(&document(1, "b2", "wan0")), [remote]);
    }

    #[test]
    fn the_rendezvous_is_a_peer_to_which_this_branch_connects() {
        assert_eq!(fields(&document(1, "b7", "wan0")), ["rendezvous"]);
        assert_eq!(fields(&document(10, "b9", "wan0")), ["rendezvous"]);
        let mut other = document(1, "b9", "wan0");
        other["transport"] = json!({"kind": "mptcp", "tls": other["transport"]["tls"]});
        let remote = "peers[0].groups[0].paths[0].remote";
        assert_eq!(fields(&other), [remote, "rendezvous"]);
    }
}
