//! `lingua token`: keys and tokens, for those who have the private key.

mod shown;

use crate::out::say;
use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use lingua_http_client::{HttpClient, HttpReply};
use lingua_store::Clock;
use serde_json::{Value, json};

use crate::cli::{Authority, Failure, Token, TokenInspect, TokenKey, TokenMint, TokenRevoke};
use crate::config::Config;
use crate::identity::{self, Authenticator, Rules, Wish};
use crate::runtime::runtime;
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
    let defaults = Rules::read(&Config::preset(Default::default())).map_err(Failure::failed)?;
    let usual_s = defaults.life_s(options.role);
    let life_s = options.life_s.unwrap_or(usual_s);
    let tenants = (!options.tenants.is_empty()).then(|| options.tenants.iter().cloned().collect());
    let wish = Wish {
        role: options.role,
        subject: options.subject.clone(),
        tenant: options.tenant.clone(),
        tenants,
        max_slots: options.max_slots,
        region: options.region.clone(),
        issuer: options.issuer.clone(),
        audience: options.audience.clone(),
        not_before_s: now_s(),
        life_s,
    };
    crate::permissions::warn_if_open("--key", &options.key);
    let token = identity::mint(&options.key, wish).map_err(Failure::failed)?;
    for warning in identity::warnings(options.role, life_s, usual_s) {
        tracing::warn!("{warning}");
    }
    say!("{token}");
    Ok(())
}

fn inspect(options: &TokenInspect) -> Result<(), Failure> {
    let loaded = options.settings.asked().load(std::env::vars())?;
    let token = read_token()?;
    let claims = identity::claims_of(&token).ok_or_else(|| Failure::failed("it is no token"))?;
    say!("{claims:#}");
    if let Some(url) = &options.url {
        return inspect_at(url, options, &token, &claims);
    }
    let rules = Rules::read(&loaded.config).map_err(Failure::refused)?;
    let authenticator = Authenticator::new(rules.clone());
    if authenticator.is_open() {
        say!("identity.key_files is empty: whether it is good was not checked");
        return Ok(());
    }
    match authenticator.caller(Some(&token), now_s()) {
        Ok(_) => {
            say!("it is good, unless it was revoked; --url asks a scheduler");
            Ok(())
        }
        Err(refusal) => {
            let hint = hint(refusal.reason, &claims, &rules, now_s());
            Err(Failure::failed(format!("{}{hint}", refusal.detail)))
        }
    }
}

/// What both sides say, where a token is refused for a difference between them.
fn hint(reason: Option<&str>, claims: &Value, rules: &Rules, now_s: u64) -> String {
    let at = |name: &str| claims[name].as_u64().unwrap_or_default();
    match reason {
        Some("unknown_key") => {
            format!(
                ": the token names {}, there are {}",
                claims["kid"],
                rules.keys.names().join(", ")
            )
        }
        Some("other_audience") => {
            format!(": the token says {}, the configuration {:?}", claims["aud"], rules.audience)
        }
        Some("other_issuer") => {
            format!(": the token says {}, the configuration {:?}", claims["iss"], rules.issuer)
        }
        Some("lives_too_long") => {
            format!(": the token lives {} s", at("exp").saturating_sub(at("nbf")))
        }
        Some("expired") => format!(" {} s ago", now_s.saturating_sub(at("exp"))),
        Some("not_yet") => format!(", but in {} s", at("nbf").saturating_sub(now_s)),
        _ => String::new(),
    }
}

/// Shows the token to a scheduler, with a call of its role that changes nothing.
fn inspect_at(
    url: &str,
    options: &TokenInspect,
    token: &str,
    claims: &Value,
) -> Result<(), Failure> {
    let path = match claims["role"].as_str() {
        Some("session") => "/v1/languages".to_owned(),
        Some("node") => format!("/v1/node/{}", claims["sub"].as_str().unwrap_or_default()),
        Some("metrics") => "/metrics".to_owned(),
        _ => "/api/v1/revocations".to_owned(),
    };
    let answer =
        ask(url, &options.authority, Some(token), |client| async move { client.get(&path).await })?;
    match answer.status {
        401 | 403 => Err(Failure::failed(format!("the scheduler refuses it: {}", detail(&answer)))),
        // A node that it does not know yet, a call that it has no time for: the token was good.
        200..500 => {
            say!("the scheduler at {url} takes it");
            Ok(())
        }
        status => {
            Err(Failure::failed(format!("the scheduler answers {status}: {}", detail(&answer))))
        }
    }
}

/// One call of a scheduler.
fn ask<F>(
    url: &str,
    authority: &Authority,
    token: Option<&str>,
    call: impl FnOnce(HttpClient<Connector>) -> F,
) -> Result<HttpReply, Failure>
where
    F: Future<Output = anyhow::Result<HttpReply>>,
{
    let connector = Connector::new(authority.trust(url)?, CONNECT);
    let runtime = runtime()?;
    let answer = runtime.block_on(async {
        let mut client = HttpClient::with(connector, url);
        if let Some(token) = token {
            client = client.bearer(token)?;
        }
        call(client).await
    })?;
    Ok(answer)
}

/// Why it was refused.
fn detail(answer: &HttpReply) -> String {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    said["detail"].as_str().unwrap_or("it gave no reason").to_owned()
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
    let answer = ask(&options.url, &options.authority, shown.as_deref(), |client| async move {
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
        _ => Err(Failure::failed(format!("the scheduler refused it: {}", detail(&answer)))),
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
