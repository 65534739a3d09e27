//! Where the catalogue comes from.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lingua_http_client::HttpClient;
use lingua_protocol::catalogue::{Catalogue, MAX_CATALOGUE_BYTES};

use crate::site::CatalogueUrl;
use crate::tls::{Connector, Trust};

/// For a connection, and for an answer from its first byte to its last.
const LIMIT: Duration = Duration::from_secs(10);

/// Where the catalogue is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Source {
    /// Asked over HTTP.
    Url(CatalogueUrl),
    /// Read from the disk.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Url(url) => url.fmt(f),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

/// What a reading brought.
pub(super) enum Fetched {
    /// Another catalogue than before.
    New(Catalogue),
    /// The one that is known.
    Same,
}

/// Reads the catalogue again and again.
pub(super) struct Reader {
    source: Source,
    client: Option<HttpClient<Connector>>,
    /// What the server called the last good one.
    etag: Option<String>,
    /// When the last good file was written, and how long it was.
    file: Option<(SystemTime, u64)>,
}

impl Reader {
    pub fn new(source: Source) -> Result<Self, String> {
        let client = match &source {
            Source::File(_) => None,
            Source::Url(url) => {
                let url = url.uri();
                let trust = match url.scheme_str() {
                    Some("https") => Trust::system()?,
                    _ => Trust::Nobody,
                };
                let authority = url.authority().map_or("", |authority| authority.as_str());
                let base = format!("{}://{authority}", url.scheme_str().unwrap_or("http"));
                let client = HttpClient::with(Connector::new(trust, LIMIT), base).limit(LIMIT);
                Some(client.largest(MAX_CATALOGUE_BYTES))
            }
        };
        Ok(Reader { source, client, etag: None, file: None })
    }

    pub fn of_file(file: PathBuf) -> Self {
        Reader { source: Source::File(file), client: None, etag: None, file: None }
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    pub async fn read(&mut self) -> Result<Fetched, String> {
        match (&self.source, &self.client) {
            (Source::Url(url), Some(client)) => {
                let url = url.uri();
                let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
                let mut asking = client.clone();
                if let Some(etag) = &self.etag {
                    // What came as a header can be sent as one.
                    asking =
                        asking.header("if-none-match", etag).map_err(|error| error.to_string())?;
                }
                let reply = asking.get(&path).await.map_err(|error| format!("{error:#}"))?;
                match reply.status {
                    200 => {}
                    304 if self.etag.is_some() => return Ok(Fetched::Same),
                    status => return Err(format!("the server answered {status}")),
                }
                let catalogue = Catalogue::parse(&reply.body)?;
                self.etag = reply.header("etag").map(str::to_owned);
                Ok(Fetched::New(catalogue))
            }
            (Source::File(path), _) => {
                let failed = |error: std::io::Error| format!("{}: {error}", path.display());
                let about = tokio::fs::metadata(path).await.map_err(failed)?;
                if about.len() > MAX_CATALOGUE_BYTES as u64 {
                    return Err("is larger than 1 MiB".to_owned());
                }
                let stamp = about.modified().ok().map(|written| (written, about.len()));
                if stamp.is_some() && stamp == self.file {
                    return Ok(Fetched::Same);
                }
                let catalogue = Catalogue::parse(&tokio::fs::read(path).await.map_err(failed)?)?;
                self.file = stamp;
                Ok(Fetched::New(catalogue))
            }
            (Source::Url(_), None) => Err("there is nothing to ask with".to_owned()),
        }
    }
}
