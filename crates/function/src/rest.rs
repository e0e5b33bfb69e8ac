//! An API over TCP, authenticated by a bearer token (RFC 6750).

use std::{fs, io, net::TcpListener, sync::Arc, thread};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::runtime;

use super::document::Rest;

/// Shortest token, characters: 64 bits in hexadecimal digits.
const TOKEN_MIN: usize = 16;

/// Serves `router` in a thread of its own until the process ends.
pub(crate) fn serve(rest: &Rest, router: Router) -> io::Result<()> {
    let token = token(&rest.token_file)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = TcpListener::bind(rest.listen)?;
    socket.set_nonblocking(true)?;
    let guarded = router.layer(middleware::from_fn_with_state(token, authorise));
    let serving = move || {
        let result = runtime.block_on(async {
            axum::serve(tokio::net::TcpListener::from_std(socket)?, guarded).await
        });
        if let Err(error) = result {
            tracing::error!(%error, "the REST API has ended");
        }
    };
    thread::Builder::new().name("rest".into()).spawn(serving)?;
    Ok(())
}

fn token(file: &str) -> io::Result<Arc<str>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{file}: {error}"));
    let text = fs::read_to_string(file).map_err(named)?;
    let token = text.trim();
    if token.len() < TOKEN_MIN {
        let text = format!("{file}: a token has at least {TOKEN_MIN} characters");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(token.into())
}

async fn authorise(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| equal(given.as_bytes(), token.as_bytes())) {
        return next.run(request).await;
    }
    let answer = json!({"error": "the token is missing or wrong (authorization: Bearer TOKEN)"});
    (StatusCode::UNAUTHORIZED, Json(answer)).into_response()
}

/// Compares in constant time.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_tokens_are_equal() {
        assert!(equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd") && !equal(b"abc", b"ab") && !equal(b"", b"a"));
    }
}
