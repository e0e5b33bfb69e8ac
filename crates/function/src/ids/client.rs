//! The way to a firewall: its REST API, over one connection that is kept, in a thread of its own.

use std::{fs, io, path::Path, sync::Arc, thread, time::Duration};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    version::TLS13,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime,
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    clock::now_us,
    document::{Firewall, Tls},
};
use crate::crypto;

/// Orders that wait at most.
const QUEUE: usize = 8192;
/// Time for a connection with its handshake, and for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Pause after a failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Largest answer that is read, bytes.
const ANSWER_MAX: usize = 64 << 10;

/// What a firewall is told.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Number of the rule.
    pub(crate) id: u64,
    /// The rule, with the seconds that it has left; without, the rule is removed.
    pub(crate) rule: Option<Value>,
    /// Time at which the rule would be gone by itself, microseconds since 1970.
    pub(crate) expires_us: u64,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The firewall has confirmed it.
    Done,
    /// It did not answer, or cannot now; the order is sent again.
    Trouble(String),
    /// It was refused, or its time is over.
    Refused(String),
}

/// The way to one firewall.
pub(crate) struct Client(mpsc::Sender<Order>);

impl Client {
    /// Starts the thread, which ends with the client. `told` takes each outcome of an order.
    pub(crate) fn start(
        firewall: Firewall,
        told: impl Fn(&Order, Outcome) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (to, mut from) = mpsc::channel::<Order>(QUEUE);
        let serving = async move {
            let mut session = Session { firewall, sender: None };
            while let Some(order) = from.recv().await {
                session.deliver(&order, &told).await;
            }
        };
        thread::Builder::new().name("verdicts".into()).spawn(move || runtime.block_on(serving))?;
        Ok(Self(to))
    }

    /// Hands an order over; false if too many wait.
    pub(crate) fn send(&self, order: Order) -> bool {
        self.0.try_send(order).is_ok()
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// A connection that is made when needed.
struct Session {
    firewall: Firewall,
    sender: Option<Sender>,
}

impl Session {
    /// Sends an order until the firewall answers, or its time is over.
    async fn deliver(&mut self, order: &Order, told: &impl Fn(&Order, Outcome)) {
        let mut pause = FIRST_PAUSE;
        loop {
            let left_us = order.expires_us.saturating_sub(now_us());
            if left_us == 0 {
                return told(order, Outcome::Refused("its time is over".into()));
            }
            let answer = timeout(ANSWER_TIME, self.ask(order, left_us)).await;
            let outcome = match answer.unwrap_or_else(|_| Err("no answer".into())) {
                Ok((status, text)) => judge(order, status, &text),
                Err(error) => Outcome::Trouble(error),
            };
            let is_over = !matches!(outcome, Outcome::Trouble(_));
            if !is_over {
                self.sender = None;
            }
            told(order, outcome);
            if is_over {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn ask(&mut self, order: &Order, left_us: u64) -> Result<(StatusCode, String), String> {
        let request = self.request(order, left_us)?;
        let sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => connect(&self.firewall).await?,
        };
        let sender = self.sender.insert(sender);
        sender.ready().await.map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn request(&self, order: &Order, left_us: u64) -> Result<Request<Full<Bytes>>, String> {
        let token = token(Path::new(&self.firewall.token_file))?;
        let (method, body) = match &order.rule {
            Some(rule) => {
                let mut rule = rule.clone();
                if let Some(fields) = rule.as_object_mut() {
                    let seconds = left_us.div_ceil(1_000_000).max(1);
                    fields.insert("lifetime_s".into(), seconds.into());
                }
                (Method::PUT, rule.to_string())
            }
            None => (Method::DELETE, String::new()),
        };
        Request::builder()
            .method(method)
            .uri(format!("/v1/rules/{}", order.id))
            .header(HOST, self.firewall.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))
            .map_err(|error| error.to_string())
    }
}

/// What an answer means. A rule that is already gone is removed.
fn judge(order: &Order, status: StatusCode, text: &str) -> Outcome {
    let is_gone = order.rule.is_none() && status == StatusCode::NOT_FOUND;
    let told = || format!("{status}: {}", text.chars().take(200).collect::<String>());
    match status {
        _ if status.is_success() || is_gone => Outcome::Done,
        StatusCode::UNAUTHORIZED | StatusCode::REQUEST_TIMEOUT => Outcome::Trouble(told()),
        _ if status.is_server_error() => Outcome::Trouble(told()),
        _ => Outcome::Refused(told()),
    }
}

/// The first line of the token's file, which may change at any time.
fn token(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let token = text.lines().map(str::trim).find(|line| !line.is_empty());
    token.map(String::from).ok_or_else(|| format!("{}: there is no token in it", file.display()))
}

async fn connect(firewall: &Firewall) -> Result<Sender, String> {
    let failed = |error: io::Error| error.to_string();
    let stream = TcpStream::connect(firewall.address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = &firewall.tls else { return speak(stream).await };
    let name = ServerName::try_from(tls.name.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(trust(tls)?));
    speak(connector.connect(name, stream).await.map_err(failed)?).await
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<Sender, String> {
    let made = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        let _ = connection.await; // its errors are those of requests
    });
    Ok(sender)
}

/// The authorities, from a file that may be replaced.
pub(crate) fn trust(tls: &Tls) -> Result<ClientConfig, String> {
    let told = |error: &dyn ToString| format!("{}: {}", tls.authority, error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&tls.authority).map_err(|e| told(&e))? {
        roots.add(certificate.map_err(|e| told(&e))?).map_err(|e| told(&e))?;
    }
    let config = ClientConfig::builder_with_provider(crypto::provider());
    let config = config.with_protocol_versions(&[&TLS13]).map_err(|e| told(&e))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_the_order_is_sent_again() {
        let put = Order { id: 1, rule: Some(Value::Null), expires_us: 0 };
        let delete = Order { id: 1, rule: None, expires_us: 0 };
        let of = |order: &Order, status| judge(order, StatusCode::from_u16(status).unwrap(), "no");
        assert_eq!(of(&put, 200), Outcome::Done);
        assert_eq!((of(&delete, 204), of(&delete, 404)), (Outcome::Done, Outcome::Done));
        assert!(matches!(of(&put, 404), Outcome::Refused(_)), "no firewall");
        assert!(matches!(of(&put, 422), Outcome::Refused(_)));
        for status in [401, 408, 500, 503] {
            assert!(matches!(of(&put, status), Outcome::Trouble(_)), "{status}");
        }
    }
}
