//! How a private server is told to be.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::ports::free_ports;
use crate::resp::Login;

/// What one server shall be; [`RedisConfig::start`] makes it so.
///
/// Without any call: standalone, nothing on disk, `noeviction`, a free port of 127.0.0.1 and a
/// private directory that goes away with the server.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    pub(crate) binary: String,
    pub(crate) mode: Mode,
    pub(crate) port: Option<u16>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) login: Option<Login>,
    tls: Option<TlsFiles>,
    replica_of: Option<(String, u16)>,
    pub(crate) apart: bool,
    /// Written last, and Redis takes the last word for every directive.
    lines: Vec<String>,
}

/// The files of a server that speaks TLS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// When given, a client must show a certificate signed by this authority.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Standalone,
    Cluster,
    Sentinel,
}

/// The ports of one server. They stay the same over restarts: clients and peers remember them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// Plain RESP. Kept open beside TLS, because it is how the lab itself talks to the server.
    pub plain: u16,
    pub tls: Option<u16>,
    pub bus: Option<u16>,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl RedisConfig {
    /// A standalone server with the defaults of the lab.
    pub fn new() -> Self {
        Self {
            binary: "redis-server".to_owned(),
            mode: Mode::Standalone,
            port: None,
            dir: None,
            login: None,
            tls: None,
            replica_of: None,
            apart: false,
            lines: Vec::new(),
        }
    }

    /// Another program than `redis-server`, by name or path: `valkey-server`, another version.
    pub fn binary(mut self, program: impl Into<String>) -> Self {
        self.binary = program.into();
        self
    }

    /// One more line of `redis.conf`. It wins over the defaults of the lab.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// This port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// This directory instead of a private one; it must exist and outlives the server. An
    /// append-only file found in it is loaded.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// A password for the default user, which [`crate::RedisServer::command`] and replicas use too.
    pub fn password(self, password: &str) -> Self {
        self.line(format!("requirepass {}", quoted(password)))
            .line(format!("masterauth {}", quoted(password)))
            .log_in(None, password)
    }

    /// Who [`crate::RedisServer::command`] logs in as, on a server whose users are given by `user` lines
    /// or an `aclfile`.
    pub fn login(self, user: &str, password: &str) -> Self {
        self.log_in(Some(user.to_owned()), password)
    }

    /// TLS on a port of its own ([`crate::RedisServer::tls_port`]), beside the plain one.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Starts as a replica of that primary, which may be a [`crate::FaultProxy`] before it.
    pub fn replica_of(mut self, host: impl Into<String>, port: u16) -> Self {
        self.replica_of = Some((host.into(), port));
        self
    }

    /// In a process group of its own: Ctrl-C on a terminal does not reach it, and whoever started it
    /// ends it in order.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Cluster mode, without slots and peers: [`crate::RedisCluster`] gives them.
    pub fn cluster(mut self) -> Self {
        self.mode = Mode::Cluster;
        self
    }

    pub(crate) fn sentinel(mut self) -> Self {
        self.mode = Mode::Sentinel;
        self
    }

    /// A line before those of the caller, which win over it.
    pub(crate) fn first_line(mut self, line: &str) -> Self {
        self.lines.insert(0, line.to_owned());
        self
    }

    fn log_in(mut self, user: Option<String>, password: &str) -> Self {
        self.login = Some(Login { user, password: password.to_owned() });
        self
    }

    pub(crate) fn choose_ports(&self) -> io::Result<Ports> {
        let [plain, tls, bus] = free_ports()?;
        Ok(Ports {
            plain: self.port.unwrap_or(plain),
            tls: self.tls.is_some().then_some(tls),
            bus: (self.mode == Mode::Cluster).then_some(bus),
        })
    }

    /// The configuration file. Logs go to standard output, where complaints about the file itself
    /// go as well.
    pub(crate) fn render(&self, ports: Ports, dir: &Path) -> String {
        let mut file = format!(
            "port {}\nbind 127.0.0.1\nprotected-mode no\ndir {}\nlogfile \"\"\ndaemonize no\n",
            ports.plain,
            quoted_path(dir),
        );
        if self.mode != Mode::Sentinel {
            // Replicas would wait five seconds for company before they get their first copy.
            file.push_str(
                "save \"\"\nappendonly no\nmaxmemory-policy noeviction\n\
                 enable-debug-command yes\nrepl-diskless-sync-delay 0\n",
            );
        }
        if let (Some(port), Some(files)) = (ports.tls, &self.tls) {
            files.render(port, &mut file);
        }
        if let Some(bus) = ports.bus {
            put(&mut file, "cluster-enabled", "yes");
            put(&mut file, "cluster-port", bus);
            put(&mut file, "cluster-config-file", "nodes.conf");
        }
        if let Some((host, port)) = &self.replica_of {
            put(&mut file, "replicaof", format_args!("{host} {port}"));
        }
        for line in &self.lines {
            file.push_str(line);
            file.push('\n');
        }
        file
    }
}

impl TlsFiles {
    fn render(&self, port: u16, file: &mut String) {
        put(file, "tls-port", port);
        put(file, "tls-cert-file", quoted_path(&self.cert));
        put(file, "tls-key-file", quoted_path(&self.key));
        match &self.client_ca {
            Some(ca) => {
                put(file, "tls-ca-cert-file", quoted_path(ca));
                put(file, "tls-auth-clients", "yes");
            }
            None => put(file, "tls-auth-clients", "no"),
        }
    }
}

fn put(file: &mut String, directive: &str, value: impl std::fmt::Display) {
    writeln!(file, "{directive} {value}").expect("writing to a String does not fail");
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// One word for Redis, whatever characters are in it.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_caller_come_last_so_that_they_win() {
        let config = RedisConfig::new().replica_of("127.0.0.1", 1).line("appendonly yes");
        let file = config.render(config.choose_ports().unwrap(), Path::new("/tmp/a b"));
        assert!(file.contains("appendonly no\n") && file.ends_with("\nappendonly yes\n"), "{file}");
        assert!(file.contains("\nreplicaof 127.0.0.1 1\n"), "{file}");
        assert!(file.contains("\ndir \"/tmp/a b\"\n"), "{file}");
    }

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted(r#"a "b\c"#), r#""a \"b\\c""#);
    }
}
