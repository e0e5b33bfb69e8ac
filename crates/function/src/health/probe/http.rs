//! A minimal HTTP/1.1 client for health checks (RFC 9112).

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Largest response, bytes.
const ANSWER_MAX: usize = 64 * 1024;
/// End of the header section.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A response.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Empty unless requested.
    pub(crate) body: Vec<u8>,
}

/// Sends a GET request for `path`. With `keep`, the connection stays open and the whole body is read.
pub(crate) async fn get<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    host: &str,
    path: &str,
    keep: bool,
) -> Result<Answer, String> {
    let connection = if keep { "keep-alive" } else { "close" };
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: {connection}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    let end = loop {
        match text.windows(HEAD_END.len()).position(|window| window == HEAD_END) {
            Some(at) => break at,
            None => more(stream, &mut text).await?,
        }
    };
    let body = text.split_off(end + HEAD_END.len());
    let head = Head::parse(&text).ok_or("the answer is not HTTP")?;
    let body = if keep { rest(stream, body, head.length).await? } else { Vec::new() };
    Ok(Answer { status: head.status, body })
}

async fn rest<S: AsyncRead + Unpin>(
    stream: &mut S,
    mut body: Vec<u8>,
    length: Option<usize>,
) -> Result<Vec<u8>, String> {
    let length = length.filter(|length| *length <= ANSWER_MAX).ok_or("an answer without length")?;
    while body.len() < length {
        more(stream, &mut body).await?;
    }
    if body.len() == length { Ok(body) } else { Err("more than the answer".into()) }
}

async fn more<S: AsyncRead + Unpin>(stream: &mut S, text: &mut Vec<u8>) -> Result<(), String> {
    match stream.read_buf(text).await {
        Ok(0) => Err("the connection was closed".into()),
        Ok(_) if text.len() > ANSWER_MAX => Err("the answer is too long".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    length: Option<usize>,
}

impl Head {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let status = words.next().filter(|version| version.starts_with("HTTP/1."));
        let status = status.and(words.next()).filter(|digits| digits.len() == 3)?.parse().ok()?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = lengths.next().and_then(|(_, value)| value.trim().parse().ok());
        Some(Self { status, length })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn ask(answer: &'static [u8], keep: bool) -> Result<Answer, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut here, mut there) = duplex(100_000);
            there.write_all(answer).await.unwrap();
            let server = async {
                let mut asked = [0; 1024];
                assert!(there.read(&mut asked).await.unwrap() > 0);
                drop(there);
            };
            tokio::join!(get(&mut here, "x", "/", keep), server).0
        })
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let answer = ask(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true);
        assert_eq!(answer, Ok(Answer { status: 200, body: b"{}".into() }));
        let answer = ask(b"HTTP/1.0 503 Out\r\n\r\nx", false);
        assert_eq!(answer, Ok(Answer { status: 503, body: Vec::new() }));
    }

    #[test]
    fn malformed_responses_are_errors() {
        for (answer, keep) in [
            (&b""[..], false),
            (b"HTTP/1.1 200 OK\r\n", false),
            (b"SSH-2.0-x\r\n\r\n", false),
            (b"HTTP/1.1 2000 OK\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\n\r\n", true),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", true),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab", true),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", true),
        ] {
            assert!(ask(answer, keep).is_err(), "{answer:?}");
        }
    }
}
