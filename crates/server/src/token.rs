//! `lingua token`: keys and tokens, for those who have the private key.

mod shown;

use crate::out::say;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use lingua_store::Clock;
use serde_json::{Value, json};

use crate::cli::{Failure, Token, TokenInspect, TokenKey, TokenMint, TokenRevoke};
use crate::config::Config;
use crate::identity::{self, Gate, Role, Rules, Wish};
use crate::tls::Connector;

pub use shown::{Tokens, advice, token_of_environment, tokens_of_environment};

/// For a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// Bytes of what is read from standard input.
const MAX_INPUT: u64 = 64 << 10;

pub(crate) fn run(what: &Token) -> Result<(), Failure> {
    match what {
        Token::Key(options) => key(options),
        Token::Mint(options) => mint(options),
        Token::Inspect(options) => inspect(options),
        Token::Revoke(options) => revoke(options),
    }
}

fn key(options: &TokenKey) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if options.name.is_empty() || !options.name.chars().all(plain) {
        return Err(Failure::usage("a key's name is letters, digits, _ and -"));
    }
    let (private, public) = identity::make_key().map_err(Failure::failed)?;
    let file = |ending: &str| options.out.join(format!("{}.{ending}", options.name));
    write_new(&file("key.pem"), &private, 0o600)?;
    write_new(&file("pub.pem"), &public, 0o644)?;
    say!(
        "{} signs tokens: keep it where they are made, and nowhere else\n\
         {} goes to every scheduler, into identity.key_files",
        file("key.pem").display(),
        file("pub.pem").display()
    );
    Ok(())
}

/// A file that is there is never replaced: it may be a key that is in use.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn mint(options: &TokenMint) -> Result<(), Failure> {
    let defaults = Config::preset(Default::default()).identity;
    let life_s = options.life_s.unwrap_or(match options.role {
        Role::Session => defaults.session_life_s,
        Role::Node => defaults.node_life_s,
        Role::Admin => defaults.admin_life_s,
    });
    let tenants = (!options.tenants.is_empty()).then(|| options.tenants.iter().cloned().collect());
    let wish = Wish {
        role: options.role,
        subject: options.subject.clone(),
        tenant: options.tenant.clone(),
        tenants,
        max_slots: options.max_slots,
        issuer: options.issuer.clone(),
        audience: options.audience.clone(),
        not_before_s: now_s(),
        life_s,
    };
    crate::permissions::warn_if_open("--key", &options.key);
    say!("{}", identity::mint(&options.key, wish).map_err(Failure::failed)?);
    Ok(())
}

fn inspect(options: &TokenInspect) -> Result<(), Failure> {
    let loaded = options.settings.asked().load(std::env::vars())?;
    let token = read_token()?;
    let claims = identity::claims_of(&token).ok_or_else(|| Failure::failed("it is no token"))?;
    say!("{claims:#}");
    let gate = Gate::new(Rules::read(&loaded.config).map_err(Failure::refused)?);
    if gate.is_open() {
        say!("identity.key_files is empty: whether it is good was not checked");
        return Ok(());
    }
    match gate.caller(Some(&token), now_s()) {
        Ok(_) => {
            say!("it is good, unless it was revoked");
            Ok(())
        }
        Err(refusal) => Err(Failure::failed(refusal.detail)),
    }
}

fn revoke(options: &TokenRevoke) -> Result<(), Failure> {
    let body = match (&options.subject, options.role) {
        (Some(subject), Some(role)) => json!({"role": role.as_str(), "subject": subject}),
        _ => {
            let token = read_token()?;
            let claims =
                identity::claims_of(&token).ok_or_else(|| Failure::failed("it is no token"))?;
            json!({"jti": claims["jti"]})
        }
    };
    let shown = token_of_environment()?;
    let connector = Connector::new(options.authority.trust(&options.url)?, CONNECT);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let answer = runtime.block_on(async {
        let mut client = lingua_http_client::HttpClient::with(connector, &options.url);
        if let Some(token) = shown {
            client = client.bearer(&token)?;
        }
        client.post("/api/v1/revocations", &body).await
    })?;
    match answer.status {
        200 => {
            say!("revoked; every instance turns it away within seconds");
            if options.subject.is_some() {
                say!(
                    "new tokens of the subject are good if they begin (nbf) more than identity.leeway_s \
                     (5 s unless configured) from now"
                );
            }
            Ok(())
        }
        _ => {
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let why = said["detail"].as_str().unwrap_or("it gave no reason").to_owned();
            Err(Failure::failed(format!("the scheduler refused it: {why}")))
        }
    }
}

fn read_token() -> Result<String, Failure> {
    let mut text = String::new();
    let input = std::io::stdin().take(MAX_INPUT);
    std::io::BufReader::new(input)
        .read_to_string(&mut text)
        .context("no token on standard input")?;
    Ok(text.trim().to_owned())
}

fn now_s() -> u64 {
    Clock::system().now().as_millis() / 1_000
}
