//! A scheduler that asks for tokens, and tokens as an operator makes them.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process::{self, Lingua};

/// It, and the key.
pub struct Guarded {
    pub directory: TempDir,
    pub lingua: Lingua,
}

impl Guarded {
    /// With these lines before its `[identity]`.
    pub fn start(more: &str) -> Self {
        Self::start_with(more, "")
    }

    /// And with these in it.
    pub fn start_with(more: &str, identity: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["right", "wrong"] {
            let out = directory.path().to_str().unwrap();
            let (code, said) = process::lingua(&["token", "key", "--name", name, "--out", out]);
            assert_eq!(code, Some(0), "{said}");
        }
        let config = directory.path().join("lingua.toml");
        let key = directory.path().join("right.pub.pem");
        let text = format!(
            "listen = \"127.0.0.1:0\"\n{more}\n[identity]\nkey_files = [{key:?}]\nrecheck_ms = 100\nleeway_s = 0\n{identity}\n"
        );
        std::fs::write(&config, text).unwrap();
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        Guarded { directory, lingua }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.lingua.address())
    }

    /// A token for this role and subject.
    pub fn mint(&self, role: &str, subject: &str, more: &[&str]) -> String {
        self.mint_with("right", role, subject, more)
    }

    pub fn mint_with(&self, key: &str, role: &str, subject: &str, more: &[&str]) -> String {
        let key = self.directory.path().join(format!("{key}.key.pem"));
        let args = ["token", "mint", "--role", role, "--subject", subject, "--key"];
        let args = [&args[..], &[key.to_str().unwrap()], more].concat();
        let output = command(&args, &Shows::Nothing).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A file with these tokens, one in a line.
    pub fn file(&self, name: &str, tokens: &[String]) -> PathBuf {
        let file = self.directory.path().join(name);
        std::fs::write(&file, tokens.join("\n") + "\n").unwrap();
        file
    }
}

/// How a token is handed to a command.
pub enum Shows<'a> {
    Nothing,
    Token(&'a str),
    File(&'a Path),
}

/// A command with what it shows.
pub fn command(args: &[&str], shows: &Shows<'_>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(args).env_remove("LINGUA_STORE").env_remove("LINGUA_LISTEN");
    command.env_remove("LINGUA_TOKEN").env_remove("LINGUA_TOKEN_FILE");
    match shows {
        Shows::Nothing => {}
        Shows::Token(token) => {
            command.env("LINGUA_TOKEN", token);
        }
        Shows::File(file) => {
            command.env("LINGUA_TOKEN_FILE", file);
        }
    }
    command
}
