//! The tokens that our own commands show. They come from the environment or a file, since options of
//! a command are seen by others on the machine.

use std::fs::File;
use std::io::Read;

use serde_json::Value;

use crate::cli::Failure;
use crate::identity::claims_of;

/// Bytes of a file of tokens: enough for thousands.
const MAX_FILE: u64 = 4 << 20;

/// Where they come from, for sentences.
const WHERE: &str = "LINGUA_TOKEN, or the file that LINGUA_TOKEN_FILE names,";

/// The token to show, if there is one: `LINGUA_TOKEN`, or the first line of `LINGUA_TOKEN_FILE`.
pub fn token_of_environment() -> Result<Option<String>, Failure> {
    Ok(tokens_of_environment()?.0.into_iter().next())
}

/// All of them: a file has one in a line.
pub fn tokens_of_environment() -> Result<Tokens, Failure> {
    let said = std::env::var("LINGUA_TOKEN").unwrap_or_default();
    if !said.trim().is_empty() {
        return Ok(Tokens::of(&said));
    }
    let Some(file) = std::env::var_os("LINGUA_TOKEN_FILE").filter(|file| !file.is_empty()) else {
        return Ok(Tokens::default());
    };
    let mut text = String::new();
    let read = File::open(&file).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
    let failed = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("LINGUA_TOKEN_FILE, {}: {why}", file.display()))
    };
    read.map_err(|error| failed(&error))?;
    let tokens = Tokens::of(&text);
    if tokens.0.is_empty() { Err(failed(&"there is no token in it")) } else { Ok(tokens) }
}

/// Tokens to show. Never written anywhere.
#[derive(Default)]
pub struct Tokens(Vec<String>);

impl Tokens {
    fn of(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Tokens(lines.map(str::to_owned).collect())
    }

    /// Of these nodes, each its own: a node's token is good for the name in it and no other. One token
    /// for one node is shown as it is. Without any tokens nobody shows one.
    pub fn of_nodes(&self, names: &[String]) -> Result<Vec<Option<String>>, Failure> {
        if self.0.is_empty() {
            return Ok(vec![None; names.len()]);
        }
        if let ([token], [_]) = (&self.0[..], names) {
            return Ok(vec![Some(token.clone())]);
        }
        let claims: Vec<Value> =
            self.0.iter().map(|token| claims_of(token).unwrap_or_default()).collect();
        let of = |name: &String| {
            let found = claims.iter().position(|one| one["role"] == "node" && one["sub"] == **name);
            found.and_then(|at| self.0.get(at).cloned())
        };
        let shown: Vec<Option<String>> = names.iter().map(of).collect();
        let without: Vec<&String> =
            names.iter().zip(&shown).filter(|(_, token)| token.is_none()).map(|(n, _)| n).collect();
        match without.first() {
            None => Ok(shown),
            Some(first) => Err(Failure::failed(format!(
                "{} of {} nodes have no token, {first} first: every node shows one of its own, and \
                 the file that LINGUA_TOKEN_FILE names has one in a line for each",
                without.len(),
                names.len()
            ))),
        }
    }

    /// A session's.
    pub fn of_sessions(&self) -> Result<Option<String>, Failure> {
        let is_session =
            |token: &&String| claims_of(token).is_some_and(|claims| claims["role"] == "session");
        match self.0.iter().find(is_session) {
            None if !self.0.is_empty() => {
                Err(Failure::failed(format!("{WHERE} has no session's token")))
            }
            found => Ok(found.cloned()),
        }
    }
}

/// What to do about a refusal that a token would have spared, for the end of a sentence.
pub fn advice(code: &str) -> String {
    match code {
        "UNAUTHORIZED" | "FORBIDDEN" => {
            format!("; {WHERE} has the token to show, and lingua token mint makes one")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::json;

    use super::*;

    fn token(role: &str, subject: &str) -> String {
        let write =
            |part: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(part.to_string());
        let head = json!({"alg": "EdDSA", "typ": format!("lingua-{role}+jwt"), "kid": "k"});
        let claims = json!({"role": role, "sub": subject});
        format!("{}.{}.{}", write(head), write(claims), write(json!("signature")))
    }

    fn names(count: u32) -> Vec<String> {
        (0..count).map(|n| format!("sim-{n}")).collect()
    }

    #[test]
    fn every_node_shows_the_token_with_its_name() {
        let (a, b, s) = (token("node", "sim-1"), token("node", "sim-0"), token("session", "app"));
        let tokens = Tokens::of(&format!("{a}\n\n {b} \n{s}\n"));
        assert_eq!(tokens.of_nodes(&names(2)).ok().unwrap(), [Some(b), Some(a)]);
        assert_eq!(tokens.of_sessions().ok().unwrap(), Some(s));
        let why = format!("{:?}", tokens.of_nodes(&names(4)).err().unwrap());
        assert!(why.contains("2 of 4 nodes have no token, sim-2 first"), "{why}");
    }

    #[test]
    fn without_tokens_nobody_shows_one_and_one_is_shown_as_it_is() {
        assert_eq!(Tokens::of("").of_nodes(&names(2)).ok().unwrap(), [None, None]);
        assert_eq!(Tokens::of("").of_sessions().ok().unwrap(), None);
        let one = Tokens::of("whatever\n");
        assert_eq!(one.of_nodes(&names(1)).ok().unwrap(), [Some("whatever".to_owned())]);
        assert!(one.of_sessions().is_err());
    }
}
