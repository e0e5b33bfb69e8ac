//! Asks a Hawser daemon over its control socket whether it is ready.

use std::{future::pending, path::PathBuf};

use serde_json::Value;
use tokio::net::UnixStream;

use super::http;

/// A check through the control API. The connection stays open; the kernel closes it when the daemon ends.
pub(crate) struct Probe {
    socket: PathBuf,
    connection: Option<UnixStream>,
}

impl Probe {
    pub(crate) fn new(socket: &str) -> Self {
        Self { socket: socket.into(), connection: None }
    }

    pub(crate) async fn check(&mut self) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => UnixStream::connect(&self.socket).await.map_err(|error| self.failed(&error))?,
        };
        let answer = http::get(&mut connection, "control", "/v1/status", true).await?;
        let status: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let ready = status.as_ref().and_then(|status| status.get("ready")?.as_bool());
        self.connection = Some(connection);
        match (answer.status, ready) {
            (200, Some(true)) => Ok(()),
            (200, Some(false)) => Err("not ready".into()),
            (status, _) => Err(format!("unexpected answer (status {status})")),
        }
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.socket.display())
    }

    pub(crate) async fn broken(&mut self) -> String {
        let Some(connection) = &self.connection else { return pending().await };
        let _ = connection.readable().await; // no response is due: the peer has closed the connection
        self.connection = None;
        "the connection was closed".into()
    }
}
