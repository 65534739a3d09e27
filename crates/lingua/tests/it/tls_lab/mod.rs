//! What tests of TLS need: authorities, certificates, a client, and a way for those who speak no TLS.
#![allow(dead_code, unused_imports, reason = "shared by several test binaries")]

pub mod papers;
pub mod talk;

pub use papers::{Authority, Paper};
pub use talk::{Client, Tunnel};

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::process::{Lingua, run};

/// A directory with what a scheduler reads, and how to start it.
pub struct House {
    dir: tempfile::TempDir,
    /// Signs the certificates of instances.
    pub instances: Authority,
    /// Signs those of nodes.
    pub nodes: Authority,
    token_key: Option<PathBuf>,
}

impl House {
    /// One with `server.pem` and `server.key` for 127.0.0.1, `instances.pem` and `nodes.pem`.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (instances, nodes) = (Authority::new("instances"), Authority::new("nodes"));
        let house = House { dir, instances, nodes, token_key: None };
        house.write("instances.pem", &house.instances.pem());
        house.write("nodes.pem", &house.nodes.pem());
        house.show(&house.instances.instance());
        house
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Readable by its owner alone, as a key has to be.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Puts this certificate where the scheduler reads its own.
    pub fn show(&self, paper: &Paper) {
        self.write("server.pem", &paper.cert_pem());
        self.write("server.key", &paper.key_pem());
    }

    /// From now on tokens are asked for, and [`House::token`] makes them.
    pub fn asking_for_tokens(mut self) -> Self {
        let dir = self.dir.path().to_str().unwrap().to_owned();
        run(&["token", "key", "--name", "k", "--out", &dir]);
        self.token_key = Some(self.path("k.key.pem"));
        self
    }

    pub fn token(&self, role: &str, subject: &str, more: &[&str]) -> String {
        let key = self.token_key.as_ref().unwrap().to_str().unwrap();
        let mut args = vec!["token", "mint", "--key", key, "--role", role, "--subject", subject];
        args.extend(more);
        run(&args).trim().to_owned()
    }

    /// Writes `lingua.toml`: a free port, the certificate, and more lines of both kinds.
    pub fn configure(&self, main: &str, tls: &str) {
        let at = |name: &str| self.path(name).display().to_string();
        let keys = match self.token_key {
            Some(_) => format!("[identity]\nkey_files = [{:?}]\n", at("k.pub.pem")),
            None => String::new(),
        };
        let tls = tls.replace("DIR", &self.dir.path().display().to_string());
        let own =
            format!("cert_file = {:?}\nkey_file = {:?}\n", at("server.pem"), at("server.key"));
        let text = format!("listen = \"127.0.0.1:0\"\n{main}\n[tls]\n{own}{tls}\n{keys}");
        self.write("lingua.toml", &text);
    }

    /// Starts it with that file; what it logs goes to `log`.
    pub fn start(&self) -> Lingua {
        self.start_as("log", &[])
    }

    pub fn start_as(&self, log: &str, more: &[&str]) -> Lingua {
        let config = self.path("lingua.toml");
        let mut args = vec!["serve", "--config", config.to_str().unwrap()];
        args.extend(more);
        Lingua::start_logging(&args, Path::new(&self.path(log)))
    }

    /// A client that believes the scheduler's authority.
    pub fn client(&self) -> Client {
        Client::new(&self.instances)
    }
}
