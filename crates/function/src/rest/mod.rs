//! An API over TCP, with TLS, authenticated by bearer tokens (RFC 6750).
//!
//! Whoever reaches the port may be hostile: connections are few and short, nothing of a body is read before the token
//! is known to be valid, and what a client has to send has a time limit.

mod certificate;
mod document;
mod places;
mod tokens;

use std::{io, net::TcpListener, path::Path, sync::Arc, thread, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hawser_daemon::config::FieldError;
use http_body_util::Limited;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::{self, Runtime},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::document::Rest;
use self::{certificate::Certificate, places::Places, tokens::Tokens};

/// Time for the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Time for the header of a request, also from the end of the one before.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Time for a request with its body, which may come over a slow network.
const REQUEST_TIME: Duration = Duration::from_mins(1);
/// Time for a connection, with the answers that a client is slow to read.
const CONNECTION_TIME: Duration = Duration::from_mins(5);
/// Pause after a connection could not be accepted, such as for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes read ahead of a connection: room for the longest header.
const BUFFER: usize = 16 << 10;
/// Largest body, bytes: room for 100 000 rules. More are set through the control socket.
const BODY_MAX: usize = 32 << 20;
/// Requests at most that are read and handled at the same time. Others wait.
const AT_ONCE: usize = 4;

/// An API that is ready to serve.
pub(crate) struct Api {
    socket: TcpListener,
    guard: Arc<Guard>,
    certificate: Option<Certificate>,
    runtime: Runtime,
}

impl Api {
    /// Opens the port and reads the files.
    ///
    /// # Errors
    /// The field that is wrong, with what the kernel or the file says.
    pub(crate) fn open(rest: &Rest) -> Result<Self, FieldError> {
        let file = &rest.token_file;
        let tokens = Tokens::open(Path::new(file));
        let tokens = tokens.map_err(wrong("token_file", file.clone(), "a file with tokens"))?;
        let certificate = rest.tls.as_ref().map(|tls| {
            let opened = Certificate::open(tls);
            opened.map_err(wrong("tls", tls.certificate.clone(), "a certificate and its key"))
        });
        let certificate = certificate.transpose()?;
        let free =
            || wrong("listen", rest.listen.to_string(), "an address and a port that are free");
        let socket = TcpListener::bind(rest.listen).map_err(free())?;
        socket.set_nonblocking(true).map_err(free())?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(free())?;
        let guard = Arc::new(Guard { tokens, at_once: Semaphore::new(AT_ONCE) });
        Ok(Self { socket, guard, certificate, runtime })
    }

    /// Serves `router` in a thread of its own until the process ends.
    pub(crate) fn serve(self, router: Router) -> io::Result<()> {
        let Self { socket, guard, certificate, runtime } = self;
        let guarded = router.layer(middleware::from_fn_with_state(guard, authorise));
        let serving = move || {
            let ended = runtime.block_on(async {
                let socket = tokio::net::TcpListener::from_std(socket)?;
                accept(&socket, certificate, guarded).await;
                io::Result::Ok(())
            });
            if let Err(error) = ended {
                tracing::error!(%error, "the REST API has ended");
            }
        };
        thread::Builder::new().name("rest".into()).spawn(serving)?;
        Ok(())
    }
}

/// Accepts connections for ever. Those for which there is no place are closed at once.
async fn accept(
    socket: &tokio::net::TcpListener,
    certificate: Option<Certificate>,
    router: Router,
) {
    let places = Places::default();
    loop {
        let Ok((stream, source)) = socket.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(place) = places.take(source.ip()) else { continue };
        let tls = certificate.as_ref().map(|files| TlsAcceptor::from(files.current()));
        let router = router.clone();
        tokio::spawn(async move {
            let _ = timeout(CONNECTION_TIME, connection(stream, tls, router)).await;
            drop(place);
        });
    }
}

/// Serves a connection. Its errors are the client's.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    let Some(tls) = tls else { return requests(stream, router).await };
    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME, tls.accept(stream)).await {
        requests(stream, router).await;
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(BUFFER);
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

/// What is checked before a request is handled.
struct Guard {
    tokens: Tokens,
    at_once: Semaphore,
}

async fn authorise(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    if !given.is_some_and(|given| guard.tokens.hold(given)) {
        let text = "the token is missing or wrong (authorization: Bearer TOKEN)";
        return refusal(StatusCode::UNAUTHORIZED, text);
    }
    let request = request.map(|body| Body::new(Limited::new(body, BODY_MAX)));
    let handled = timeout(REQUEST_TIME, async {
        let _turn = guard.at_once.acquire().await;
        next.run(request).await
    });
    handled
        .await
        .unwrap_or_else(|_| refusal(StatusCode::REQUEST_TIMEOUT, "the request came too slowly"))
}

/// An error in a field of this API's configuration.
fn wrong(
    field: &'static str,
    found: String,
    expected: &'static str,
) -> impl FnOnce(io::Error) -> FieldError {
    move |error| {
        let place = format!("firewall.rest.{field}");
        FieldError::new(&place, found, format!("{expected} ({error})"))
    }
}

fn refusal(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "error": text }))).into_response()
}
