//! The few lines of Redis protocol that setting up a test takes.
//!
//! One connection per command and no state between them, so that a test can always tell what its
//! set-up did, whatever the client under test does to its own connections. Not for speed.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server that does not answer in this time is paused, dead or behind a black hole.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// Nesting of arrays we read; Redis itself answers with four levels at most.
const MAX_DEPTH: usize = 16;

/// One answer of a server, as RESP2 has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`, with the code and without the dash.
    Error(String),
    /// `:42`
    Int(i64),
    /// Bytes, or `None` for nil.
    Bulk(Option<Vec<u8>>),
    /// A list; a nil list is read as an empty one.
    Array(Vec<Reply>),
}

impl Reply {
    /// The answer as text for asserts and messages: nil is empty, bytes that are no UTF-8 are
    /// replaced, and the items of an array stand on a line each.
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) | Reply::Error(text) => text.clone(),
            Reply::Int(number) => number.to_string(),
            Reply::Bulk(None) => String::new(),
            Reply::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Array(items) => items.iter().map(Reply::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The number, also when the server sent it as text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            other => other.text().parse().ok(),
        }
    }

    /// The items of an array; anything else has none.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }

    /// Whether the server answered nil.
    pub fn is_nil(&self) -> bool {
        matches!(self, Reply::Bulk(None))
    }

    /// The reply, or its error as our error: for set-up steps that must not be refused.
    pub fn into_result(self) -> anyhow::Result<Reply> {
        match self {
            Reply::Error(text) => bail!("the server refused: {text}"),
            other => Ok(other),
        }
    }

    /// The value that follows `name` in a flat list of names and values.
    pub(crate) fn field(&self, name: &str) -> Option<&Reply> {
        let found = self.items().chunks_exact(2).find(|pair| pair[0].text() == name)?;
        Some(&found[1])
    }
}

/// Who a connection says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// `None` is the default user.
    pub user: Option<String>,
    pub password: String,
}

impl Login {
    /// The words that log in, after the command's own name: `AUTH` and `MIGRATE` share them.
    pub fn words(&self) -> Vec<&str> {
        self.user.as_deref().into_iter().chain([self.password.as_str()]).collect()
    }
}

/// Sends one command on a connection of its own and reads the answer.
pub(crate) async fn command<A: AsRef<[u8]>>(
    addr: SocketAddr,
    login: Option<&Login>,
    args: &[A],
) -> anyhow::Result<Reply> {
    let name = args.first().map_or(Cow::Borrowed(""), |arg| String::from_utf8_lossy(arg.as_ref()));
    let talk = async {
        let mut connection = Connection::open(addr).await?;
        if let Some(login) = login {
            let mut words = vec!["AUTH"];
            words.extend(login.words());
            connection.ask(&encode(&words)).await?.into_result()?;
        }
        connection.ask(&encode(args)).await
    };
    match timeout(COMMAND_LIMIT, talk).await {
        Ok(reply) => reply.with_context(|| format!("{name} on {addr}")),
        Err(_) => bail!("{name} on {addr}: no answer within {COMMAND_LIMIT:?}"),
    }
}

/// Sends an inline `PING`, which a server understands before it knows anything of the connection.
pub(crate) async fn ping(addr: SocketAddr) -> anyhow::Result<Reply> {
    timeout(COMMAND_LIMIT, async { Connection::open(addr).await?.ask(b"PING\r\n").await })
        .await
        .with_context(|| format!("PING on {addr}: no answer within {COMMAND_LIMIT:?}"))?
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { stream: TcpStream::connect(addr).await?, received: Vec::new() })
    }

    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Reply> {
        self.stream.write_all(request).await?;
        loop {
            let mut rest = self.received.as_slice();
            if let Some(reply) = parse(&mut rest, 0)? {
                let used = self.received.len() - rest.len();
                self.received.drain(..used);
                return Ok(reply);
            }
            let read = self.stream.read_buf(&mut self.received).await?;
            ensure!(read > 0, "the server closed the connection in mid answer");
        }
    }
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// Takes one reply off the front of `input`; `None` when more bytes are needed, and then how far
/// `input` was moved means nothing.
fn parse(input: &mut &[u8], depth: usize) -> anyhow::Result<Option<Reply>> {
    ensure!(depth < MAX_DEPTH, "an answer nested deeper than {MAX_DEPTH}");
    let Some(line) = take_line(input)? else { return Ok(None) };
    let (kind, rest) = line.split_at_checked(1).context("an empty line where an answer starts")?;
    let number = || rest.parse::<i64>().with_context(|| format!("no number in answer {line:?}"));
    let reply = match kind {
        "+" => Reply::Simple(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Int(number()?),
        "$" => match usize::try_from(number()?) {
            Err(_) => Reply::Bulk(None),
            Ok(len) => {
                let Some((bytes, after)) = input.split_at_checked(len) else { return Ok(None) };
                let Some((end, after)) = after.split_at_checked(2) else { return Ok(None) };
                ensure!(end == b"\r\n", "a bulk of {len} bytes that does not end there");
                *input = after;
                Reply::Bulk(Some(bytes.to_vec()))
            }
        },
        "*" => {
            let mut items = Vec::new();
            for _ in 0..number()?.max(0) {
                let Some(item) = parse(input, depth + 1)? else { return Ok(None) };
                items.push(item);
            }
            Reply::Array(items)
        }
        _ => bail!("an answer that is no RESP2: {line:?}"),
    };
    Ok(Some(reply))
}

fn take_line<'a>(input: &mut &'a [u8]) -> anyhow::Result<Option<&'a str>> {
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&input[..end]).context("a line that is no UTF-8")?;
    *input = &input[end + 2..];
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(mut input: &[u8]) -> anyhow::Result<Option<(Reply, usize)>> {
        let reply = parse(&mut input, 0)?;
        Ok(reply.map(|reply| (reply, input.len())))
    }

    #[test]
    fn every_kind_of_answer_is_read_once_it_is_whole_and_not_before() {
        let whole = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n$4\r\na\r\nb\r\n*-1\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parsed(&whole[..cut]).unwrap(), None, "after {cut} bytes");
        }
        let items = vec![
            Reply::Simple("OK".into()),
            Reply::Error("ERR no".into()),
            Reply::Int(-7),
            Reply::Bulk(None),
            Reply::Bulk(Some(b"a\r\nb".to_vec())),
            Reply::Array(vec![]),
        ];
        assert_eq!(parsed(whole).unwrap(), Some((Reply::Array(items), 0)));
    }

    #[test]
    fn what_follows_an_answer_is_left_alone() {
        assert_eq!(parsed(b"+A\r\n+B\r\n").unwrap(), Some((Reply::Simple("A".into()), 4)));
    }

    #[test]
    fn nonsense_is_an_error_and_not_an_endless_wait() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        for input in
            [&b"HTTP/1.1 200\r\n"[..], b"\r\n", b":x\r\n", b"$1\r\nabc\r\n", deep.as_bytes()]
        {
            assert!(parsed(input).is_err(), "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn arguments_may_hold_any_bytes() {
        assert_eq!(encode(&[&b"a\r\n"[..], b""]), b"*2\r\n$3\r\na\r\n\r\n$0\r\n\r\n");
    }
}
