//! One connection on which the same request is made over and over.
//!
//! Not the HTTP client of everybody else: a bench that shares its processors with the scheduler spends as little as
//! possible on its own side, and measures the time of one request on one connection.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection, and the last answer on it.
pub(super) struct Caller {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Caller {
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(4096) })
    }

    /// Makes the request; its whole answer, headers included.
    pub async fn call(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                bail!("the scheduler closed the connection");
            }
            let Some(head) = find(&self.answer, b"\r\n\r\n") else { continue };
            let whole = head + 4 + length(&self.answer[..head])?;
            while self.answer.len() < whole {
                if self.stream.read_buf(&mut self.answer).await? == 0 {
                    bail!("the scheduler closed the connection in mid-answer");
                }
            }
            return Ok(&self.answer);
        }
    }
}

/// The length that the headers tell.
fn length(headers: &[u8]) -> anyhow::Result<usize> {
    let headers = std::str::from_utf8(headers)?.to_ascii_lowercase();
    let length = headers.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    Ok(length.context("an answer without a length")?.parse()?)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Whether a job came back well.
pub(super) fn is_done(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200") && find(answer, b"\"error\":{").is_none()
}

/// `GET` of a path.
pub(super) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes()
}

/// A job with so much audio, whose answer is its end.
pub(super) fn job(address: SocketAddr, i: u32, audio_bytes: u32) -> Vec<u8> {
    // Four characters of base64 stand for three bytes.
    let audio = "AAAA".repeat(audio_bytes.div_ceil(3) as usize);
    let body = format!(
        "{{\"session_id\":\"bench-{i}\",\"src_lang\":\"en\",\"tgt_lang\":\"zh\",\"audio\":\"{audio}\",\
         \"audio_format\":\"opus\",\"options\":{{\"wait_ms\":30000}}}}"
    );
    format!(
        "POST /v1/dispatch/f2f HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_job_is_done_only_without_an_error() {
        assert!(is_done(b"HTTP/1.1 200 OK\r\n\r\n{\"job\":{}}"));
        assert!(!is_done(b"HTTP/1.1 200 OK\r\n\r\n{\"error\":{\"code\":\"X\"}}"));
        assert!(!is_done(b"HTTP/1.1 503 Busy\r\n\r\n{}"));
    }

    #[tokio::test]
    async fn an_answer_that_comes_in_parts_is_read_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 64];
            let _ = stream.read(&mut request).await.unwrap();
            for part in ["HTTP/1.1 200 OK\r\nContent-", "Length: 4\r\n\r", "\n12", "34"] {
                stream.write_all(part.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
            stream
        });
        let mut caller = Caller::connect(address).await.unwrap();
        let answer = caller.call(&get(address, "/")).await.unwrap();
        assert!(answer.ends_with(b"\r\n\r\n1234"), "{}", String::from_utf8_lossy(answer));
        drop(server.await.unwrap());
        assert!(caller.call(b"GET / HTTP/1.1\r\n\r\n").await.is_err(), "it is closed");
    }
}
