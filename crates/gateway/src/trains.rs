//! Trains of packets on idle paths, asked for by the control API (docs/design/path-program.md, Trains between
//! gateways).

use hawser_daemon::config::{FieldError, Invalid, typed};
use hawser_tunnel::{Observed, PathId, Train};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Config;

/// A train to send on a member path (`quic`). A gateway sends at most 1 % of its port's rate in any minute, and none
/// while packets wait for any peer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd gateway train request")]
pub(super) struct Document {
    /// Branch of the peer.
    peer: String,
    /// Path group.
    group: u8,
    /// Member path of the group, from 0.
    member: u8,
    /// Rate of the path's port, bit/s.
    #[schemars(range(min = 1))]
    port_bps: u64,
    /// Bytes of a frame, from its Ethernet header to the end of its payload. More than the path takes counts as that.
    size: u16,
    /// Frames of the body: they see other traffic in a queue that does not get empty.
    frames: u16,
    /// Rate of the body, bit/s.
    rate_bps: u64,
    /// Frames of the fill, which begins with the body and builds the queue.
    fill_frames: u16,
    /// Rate of the fill, bit/s.
    fill_rate_bps: u64,
}

/// What became of a train. Frames that the gateway had no time to send are left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "hawserd gateway train")]
pub(super) struct Answer {
    /// Bytes of a frame, from its Ethernet header to the end of its payload.
    size: u16,
    /// When each frame was sent, microseconds since the path's connection began.
    sent_us: Vec<u64>,
    /// When it arrived, microseconds since the connection began at the peer; null if it was lost.
    received_us: Vec<Option<u64>>,
}

impl From<Observed> for Answer {
    fn from(Observed { size, sent_us, received_us }: Observed) -> Self {
        Self { size, sent_us, received_us }
    }
}

/// A train, and where to send it.
pub(super) struct Request {
    pub(super) path: PathId,
    pub(super) train: Train,
    pub(super) port_bps: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrainRefused {
    /// The transport has none.
    #[error("only the quic transport has trains")]
    Transport,
    /// The tunnel does not send it.
    #[error(transparent)]
    Tunnel(#[from] hawser_tunnel::TrainRefused),
    /// The peer did not answer.
    #[error("the peer did not answer")]
    NoAnswer,
}

/// Parses a request.
pub(super) fn parse(value: &Value, config: &Config) -> Result<Request, Invalid> {
    let document: Document = typed(value)?;
    let wrong = |field: &str, found: Value, expected: &str| Invalid {
        errors: vec![FieldError::new(field, found, expected)],
    };
    let peer = config.peers.iter().find(|peer| peer.branch == document.peer);
    let Some(peer) = peer.map(|peer| peer.id) else {
        return Err(wrong("peer", document.peer.into(), "the branch of a peer"));
    };
    let body = (document.frames, document.rate_bps);
    let fill = (document.fill_frames, document.fill_rate_bps);
    let train = Train::new(document.size, body, fill).map_err(|(field, expected)| {
        wrong(field, value.get(field).cloned().unwrap_or_default(), expected)
    })?;
    let path = PathId { peer, group: document.group, member: document.member };
    Ok(Request { path, train, port_bps: document.port_bps })
}
