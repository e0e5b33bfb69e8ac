//! An API over TCP, for whoever has the token.

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

/// Characters that a token has at least: 96 bits of hexadecimal digits are 24.
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
        let text = format!("{file}: a token has {TOKEN_MIN} characters at least");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(token.into())
}

async fn authorise(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let brought = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let brought = brought.and_then(|value| value.strip_prefix("Bearer "));
    if brought.is_some_and(|brought| equal(brought.as_bytes(), token.as_bytes())) {
        return next.run(request).await;
    }
    let answer = json!({"error": "the token is missing or wrong (authorization: Bearer TOKEN)"});
    (StatusCode::UNAUTHORIZED, Json(answer)).into_response()
}

/// Takes the same time wherever they differ.
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
