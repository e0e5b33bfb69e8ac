//! The handshake, driven by received bytes.

use rustls::{
    client::UnbufferedClientConnection,
    pki_types::{DnsName, ServerName},
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus},
};

use crate::{Error, Identity, Session, protection::record_len, session::Keys};

/// A handshake in progress.
pub struct Handshake(Role);

enum Role {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// Progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were consumed and are to be removed.
    pub consumed: usize,
    /// Whether [`Handshake::finish`] can be called. Remaining input belongs to the session.
    pub done: bool,
}

impl Handshake {
    /// The client side, connecting to branch `name`.
    pub fn client(identity: &Identity, name: &str) -> Result<Self, Error> {
        let name = DnsName::try_from(name.to_owned())
            .map_err(|_| rustls::Error::General(format!("{name} is no host name")))?;
        let name = ServerName::DnsName(name);
        let connection = UnbufferedClientConnection::new(identity.client.clone(), name)?;
        Ok(Self(Role::Client(Box::new(connection))))
    }

    /// The server side.
    pub fn server(identity: &Identity) -> Result<Self, Error> {
        let connection = UnbufferedServerConnection::new(identity.server.clone())?;
        Ok(Self(Role::Server(Box::new(connection))))
    }

    /// Processes received bytes and appends bytes to send to `out`. If it fails, these are an alert.
    pub fn advance(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) -> Result<Step, Error> {
        let mut step = Step { consumed: 0, done: false };
        // rustls is given one record at a time, so that it does not process records after the handshake.
        let mut shown = 0;
        loop {
            let input = incoming.get_mut(step.consumed..shown).unwrap_or_default();
            let (used, blocked) = self.process(input, out)?;
            step.done = !self.is_handshaking();
            step.consumed += used;
            if !blocked {
                continue;
            }
            if step.done {
                return Ok(step);
            }
            shown = shown.max(step.consumed);
            let rest = incoming.get(shown..).unwrap_or_default();
            match record_len(rest)? {
                Some(len) if len <= rest.len() => shown += len,
                _ => return Ok(step),
            }
        }
    }

    /// One step of rustls; returns the input it consumed and whether it needs more.
    fn process(&mut self, input: &mut [u8], out: &mut Vec<u8>) -> Result<(usize, bool), Error> {
        let result = match &mut self.0 {
            Role::Client(c) => outcome(c.process_tls_records(input), out),
            Role::Server(c) => outcome(c.process_tls_records(input), out),
        };
        if result.is_err() {
            // rustls emits the alert in the next step.
            let _ = match &mut self.0 {
                Role::Client(c) => outcome(c.process_tls_records(&mut []), out),
                Role::Server(c) => outcome(c.process_tls_records(&mut []), out),
            };
        }
        result
    }

    fn is_handshaking(&self) -> bool {
        match &self.0 {
            Role::Client(c) => c.is_handshaking(),
            Role::Server(c) => c.is_handshaking(),
        }
    }

    /// The session after a completed handshake.
    pub fn finish(self) -> Result<Session, Error> {
        match self.0 {
            Role::Client(c) => {
                let chain = c.peer_certificates().unwrap_or_default().to_vec();
                let (secrets, keys) = c.dangerous_into_kernel_connection()?;
                Session::new(secrets, Keys::Client(Box::new(keys)), chain)
            }
            Role::Server(c) => {
                let chain = c.peer_certificates().unwrap_or_default().to_vec();
                let (secrets, keys) = c.dangerous_into_kernel_connection()?;
                Session::new(secrets, Keys::Server(Box::new(keys)), chain)
            }
        }
    }
}

/// Acts on a state of rustls; returns the input it consumed and whether it needs more.
fn outcome<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
) -> Result<(usize, bool), Error> {
    let UnbufferedStatus { discard, state } = status;
    match state? {
        ConnectionState::EncodeTlsData(data) => encode(data, out).map(|()| (discard, false)),
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok((discard, false))
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Ok((discard, true)),
        other => {
            Err(rustls::Error::General(format!("unexpected in a handshake: {other:?}")).into())
        }
    }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let mut room = 4096;
    loop {
        out.resize(start + room, 0);
        match data.encode(out.get_mut(start..).unwrap_or_default()) {
            Ok(len) => {
                out.truncate(start + len);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(error) => return Err(rustls::Error::General(error.to_string()).into()),
        }
    }
}
