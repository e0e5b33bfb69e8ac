//! The kinds of health checks. Some also notice immediately when the checked process ends.

mod control;
mod forwarding;
pub(crate) mod http;
mod process;

use std::{future::pending, net::SocketAddr};

use tokio::net::TcpStream;

use super::document::{By, Check};

/// One check of one instance.
pub(crate) enum Probe {
    Control(control::Probe),
    Process(process::Probe),
    Forwarding(forwarding::Probe),
    Tcp(SocketAddr),
    Http(SocketAddr, String),
}

impl Probe {
    /// A check of this kind.
    pub(crate) fn new(check: &Check) -> Self {
        match &check.by {
            By::Control { socket } => Self::Control(control::Probe::new(socket)),
            By::Process { pid_file } => Self::Process(process::Probe::new(pid_file)),
            By::Forwarding { interface, mac, address, returns } => {
                let returns = returns.as_ref().unwrap_or(interface);
                let probe = forwarding::Probe::new(interface, mac.octets(), *address, returns);
                Self::Forwarding(probe.within(check.timeout()))
            }
            By::Tcp { address } => Self::Tcp(*address),
            By::Http { address, path } => Self::Http(*address, path.clone()),
        }
    }

    /// Checks once; an error is the reason of the failure.
    pub(crate) async fn check(&mut self) -> Result<(), String> {
        match self {
            Self::Control(probe) => probe.check().await,
            Self::Process(probe) => probe.check(),
            Self::Forwarding(probe) => probe.check().await,
            Self::Tcp(address) => connect(*address).await.map(drop),
            Self::Http(address, path) => request(*address, path).await,
        }
    }

    /// Abandons a check that has timed out; returns the reason of the failure.
    pub(crate) fn give_up(&mut self, check: &Check) -> String {
        if matches!(self, Self::Forwarding(_)) {
            // It keeps its numbering: a late packet must not be taken for that of the next check.
            return forwarding::LOST.into();
        }
        *self = Self::new(check);
        format!("no answer within {} ms", check.timeout_ms)
    }

    /// Returns, with the reason, when the checked process ends. Never returns for kinds that cannot notice.
    pub(crate) async fn broken(&mut self) -> String {
        match self {
            Self::Control(probe) => probe.broken().await,
            Self::Process(probe) => probe.broken().await,
            Self::Forwarding(_) | Self::Tcp(_) | Self::Http(..) => pending().await,
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))
}

async fn request(address: SocketAddr, path: &str) -> Result<(), String> {
    let mut stream = connect(address).await?;
    let host = address.to_string();
    let status = http::get(&mut stream, &host, path, false).await?.status;
    if status < 500 { Ok(()) } else { Err(format!("{address}: status {status}")) }
}
