//! The checks themselves: each asks once, and may notice at once that what it asked has gone.

mod control;
mod forwarding;
mod http;
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
    /// A check of this kind that has asked nothing yet.
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

    /// Asks once; why it failed.
    pub(crate) async fn check(&mut self) -> Result<(), String> {
        match self {
            Self::Control(probe) => probe.check().await,
            Self::Process(probe) => probe.check(),
            Self::Forwarding(probe) => probe.check().await,
            Self::Tcp(address) => connect(*address).await.map(drop),
            Self::Http(address, path) => request(*address, path).await,
        }
    }

    /// Gives up the check under way, which was given its time; why it failed.
    pub(crate) fn give_up(&mut self, check: &Check) -> String {
        if matches!(self, Self::Forwarding(_)) {
            // It goes on numbering its packets: one that comes late is not taken for the next.
            return forwarding::LOST.into();
        }
        *self = Self::new(check);
        format!("no answer within {} ms", check.timeout_ms)
    }

    /// Ends when what was last found up has gone, with the reason; never where that shows only when asked.
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
