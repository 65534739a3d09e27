use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lingua_store::once::Name;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// The time of all tests.
const NOW: u64 = 1_790_000_000;

/// Two keys in files, of which the gate knows the first.
struct Place {
    directory: TempDir,
    gate: Arc<Gate>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            let (private, public) = make_key().unwrap();
            std::fs::write(directory.path().join(format!("{name}.key.pem")), private).unwrap();
            std::fs::write(directory.path().join(format!("{name}.pub.pem")), public).unwrap();
        }
        let gate = Gate::new(rules(&[directory.path().join("one.pub.pem")]));
        Place { directory, gate }
    }

    fn key(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.key.pem"))
    }

    fn mint(&self, wish: Wish) -> String {
        mint(&self.key("one"), wish).unwrap()
    }

    fn refusal(&self, token: &str) -> String {
        let refusal = self.gate.caller(Some(token), NOW).unwrap_err();
        assert_eq!(refusal.code, Code::Unauthorized);
        refusal.detail
    }
}

fn rules(files: &[PathBuf]) -> Rules {
    Rules {
        keys: Keys::read(files).unwrap(),
        issuer: "lingua".to_owned(),
        audience: "lingua".to_owned(),
        session_life_s: 900,
        node_life_s: 1_000_000,
        admin_life_s: 3_600,
        leeway_s: 5,
        ..Rules::default()
    }
}

fn session() -> Wish {
    Wish {
        role: Role::Session,
        subject: "app-1".to_owned(),
        tenant: Some("acme".to_owned()),
        tenants: None,
        max_slots: None,
        issuer: "lingua".to_owned(),
        audience: "lingua".to_owned(),
        not_before_s: NOW,
        life_s: 900,
    }
}

fn node() -> Wish {
    let tenants = Some(["acme".to_owned()].into());
    Wish {
        role: Role::Node,
        subject: "node-1".to_owned(),
        tenant: None,
        tenants,
        max_slots: Some(3),
        ..session()
    }
}

/// A token with other words in its parts and the signature of the key over them.
fn forged(place: &Place, change: impl Fn(&mut Value, &mut Value)) -> String {
    let token = place.mint(session());
    let read = |part: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    let parts: Vec<&str> = token.split('.').collect();
    let (mut header, mut claims) = (read(parts[0]), read(parts[1]));
    change(&mut header, &mut claims);
    let write = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let said = format!("{}.{}", write(&header), write(&claims));
    let signed = keys::sign_for_tests(&place.key("one"), said.as_bytes());
    format!("{said}.{}", URL_SAFE_NO_PAD.encode(signed))
}

#[test]
fn a_good_token_says_who_somebody_is() {
    let place = Place::new();
    let Caller::Known(known) = place.gate.caller(Some(&place.mint(session())), NOW).unwrap() else {
        panic!("known");
    };
    assert_eq!((known.role, known.subject.as_str()), (Role::Session, "app-1"));
    assert_eq!(known.tenant, Some(TenantId::new("acme").unwrap()));
    let Caller::Known(known) = place.gate.caller(Some(&place.mint(node())), NOW).unwrap() else {
        panic!("known");
    };
    assert_eq!((known.max_slots, known.tenants.as_ref().unwrap().len()), (Some(3), 1));
    // What a token says is what can be forged with the right key: the forger itself is not at fault.
    assert!(place.gate.caller(Some(&forged(&place, |_, _| {})), NOW).is_ok());
}

#[test]
fn without_a_token_nobody_is_let_in_and_without_keys_everybody() {
    let place = Place::new();
    assert_eq!(place.gate.caller(None, NOW).unwrap_err().code, Code::Unauthorized);
    let open = Gate::open(None);
    assert!(open.is_open());
    assert!(matches!(open.caller(None, NOW), Ok(Caller::Anyone)));
    assert!(matches!(open.caller(Some("anything"), NOW), Ok(Caller::Anyone)));
}

#[test]
fn a_token_that_is_not_exactly_right_is_refused() {
    type Change = fn(&mut Value, &mut Value);
    let wrong: [(&str, Change); 34] = [
        ("no exp", |_, c| drop(c.as_object_mut().unwrap().remove("exp"))),
        ("no nbf", |_, c| drop(c.as_object_mut().unwrap().remove("nbf"))),
        ("no aud", |_, c| drop(c.as_object_mut().unwrap().remove("aud"))),
        ("no iss", |_, c| drop(c.as_object_mut().unwrap().remove("iss"))),
        ("no sub", |_, c| drop(c.as_object_mut().unwrap().remove("sub"))),
        ("no jti", |_, c| drop(c.as_object_mut().unwrap().remove("jti"))),
        ("no role", |_, c| drop(c.as_object_mut().unwrap().remove("role"))),
        ("no tenant", |_, c| drop(c.as_object_mut().unwrap().remove("tenant"))),
        ("exp as text", |_, c| c["exp"] = json!((NOW + 900).to_string())),
        ("exp with a fraction", |_, c| c["exp"] = json!(NOW as f64 + 900.5)),
        ("exp below zero", |_, c| c["exp"] = json!(-1)),
        ("exp null", |_, c| c["exp"] = Value::Null),
        ("exp before nbf", |_, c| c["exp"] = json!(NOW - 1)),
        ("exp for ever", |_, c| c["exp"] = json!(u64::MAX)),
        ("lives a second too long", |_, c| c["exp"] = json!(NOW + 901)),
        ("nbf long ago", |_, c| c["nbf"] = json!(0)),
        ("other audience", |_, c| c["aud"] = json!("lingua2")),
        ("other issuer", |_, c| c["iss"] = json!("mallory")),
        ("empty subject", |_, c| c["sub"] = json!("")),
        ("subject with a colon", |_, c| c["sub"] = json!("a:b")),
        ("long subject", |_, c| c["sub"] = json!("x".repeat(65))),
        ("tenant that is no id", |_, c| c["tenant"] = json!("a/b")),
        ("unknown role", |_, c| c["role"] = json!("root")),
        ("another role", |_, c| c["role"] = json!("admin")),
        ("role as a list", |_, c| c["role"] = json!(["session", "admin"])),
        ("slots of a session", |_, c| c["max_slots"] = json!(5)),
        ("type of another role", |h, _| h["typ"] = json!("lingua-admin+jwt")),
        ("no type", |h, _| drop(h.as_object_mut().unwrap().remove("typ"))),
        ("no kid", |h, _| drop(h.as_object_mut().unwrap().remove("kid"))),
        ("a kid that is a path", |h, _| h["kid"] = json!("../one")),
        ("a critical extension", |h, _| h["crit"] = json!(["exp"])),
        ("critical, and nothing", |h, _| h["crit"] = json!([])),
        ("alg none", |h, _| h["alg"] = json!("none")),
        ("alg HS256", |h, _| h["alg"] = json!("HS256")),
    ];
    let place = Place::new();
    for (what, change) in wrong {
        let token = forged(&place, change);
        assert_eq!(place.refusal(&token), "the token is not good here", "{what}");
    }
}

#[test]
fn a_token_of_another_key_or_none_is_refused() {
    let place = Place::new();
    let good = place.mint(session());
    let parts: Vec<&str> = good.split('.').collect();
    let others = mint(&place.key("two"), session()).unwrap();
    let others: Vec<&str> = others.split('.').collect();
    for token in [
        mint(&place.key("two"), session()).unwrap(),
        // The right key's name over another key's signature.
        format!("{}.{}.{}", parts[0], parts[1], others[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.{}", parts[0], others[1], parts[2]),
        format!("{good}A"),
        good[1..].to_owned(),
        String::new(),
        ".".repeat(5),
        "x".repeat(1 << 20),
        "\u{0}\u{ffff}".to_owned(),
    ] {
        assert_eq!(place.refusal(&token), "the token is not good here", "{token:.80}");
    }
}

#[test]
fn a_token_is_good_from_its_first_second_to_its_last() {
    let place = Place::new();
    let token = place.mint(session());
    let at = |now| place.gate.caller(Some(&token), now).map_err(|refusal| refusal.detail);
    assert_eq!(at(NOW - 6).unwrap_err(), "the token is not good yet");
    assert!(at(NOW - 5).is_ok(), "clocks differ a little");
    assert!(at(NOW + 904).is_ok());
    assert_eq!(at(NOW + 905).unwrap_err(), "the token has expired");
}

#[test]
fn a_revoked_token_is_refused_and_so_are_all_of_a_subject() {
    let place = Place::new();
    let (one, other) = (place.mint(session()), place.mint(session()));
    assert!(place.gate.caller(Some(&one), NOW).is_ok());
    let jti = claims_of(&one).unwrap()["jti"].as_str().unwrap().to_owned();
    place.gate.revoke(&[Name::new(format!("jti:{jti}")).unwrap()], NOW);
    assert_eq!(place.refusal(&one), "the token is revoked");
    assert!(place.gate.caller(Some(&other), NOW).is_ok());
    place.gate.revoke(&[Name::new(format!("sub:session:app-1:{NOW}")).unwrap()], NOW);
    assert_eq!(place.refusal(&other), "the token is revoked");
    let later = place.mint(Wish { not_before_s: NOW + 1, ..session() });
    assert!(place.gate.caller(Some(&later), NOW + 1).is_ok(), "a new one of theirs is good");
    place.gate.revoke(&[Name::new(format!("sub:node:app-1:{NOW}")).unwrap()], NOW);
    assert!(place.gate.caller(Some(&one), NOW).is_ok(), "another role's subject is another one");
    let nonsense = ["jti", "sub:root:a:1", "sub:node:a:x", "a:b:c:d:e"].map(Name::new);
    place.gate.revoke(&nonsense.map(Result::unwrap), NOW);
    assert!(place.gate.caller(Some(&one), NOW).is_ok());
}

#[test]
fn a_token_that_begins_in_a_moment_does_not_survive_the_revocation_of_its_subject() {
    let place = Place::new();
    let ahead = place.mint(Wish { not_before_s: NOW + 5, ..session() });
    assert!(place.gate.caller(Some(&ahead), NOW).is_ok(), "clocks differ a little");
    let mark = place.gate.mark_of_subject(Role::Session, "app-1", NOW);
    place.gate.revoke(&[Name::new(mark).unwrap()], NOW);
    for later in [0, 5, 6, 800] {
        let refusal = place.gate.caller(Some(&ahead), NOW + later).unwrap_err();
        assert_eq!(refusal.detail, "the token is revoked", "{later} s later");
    }
    let newer = place.mint(Wish { not_before_s: NOW + 6, ..session() });
    assert!(place.gate.caller(Some(&newer), NOW + 6).is_ok());
}

#[test]
fn keys_change_while_it_runs() {
    let place = Place::new();
    let (old, new) = (place.mint(session()), mint(&place.key("two"), session()).unwrap());
    let file = |name: &str| place.directory.path().join(format!("{name}.pub.pem"));
    assert!(place.gate.caller(Some(&old), NOW).is_ok());
    place.gate.replace(rules(&[file("one"), file("two")]), NOW);
    assert!(
        place.gate.caller(Some(&old), NOW).is_ok() && place.gate.caller(Some(&new), NOW).is_ok()
    );
    place.gate.replace(rules(&[file("two")]), NOW);
    assert_eq!(place.refusal(&old), "the token is not good here");
    assert!(place.gate.caller(Some(&new), NOW).is_ok());
}

#[test]
fn what_was_being_checked_when_its_key_went_is_not_remembered() {
    let place = Place::new();
    let token = place.mint(session());
    let before = place.gate.rules();
    place.gate.replace(rules(&[place.directory.path().join("two.pub.pem")]), NOW);
    // It began before the key was gone, and ends after it.
    assert!(place.gate.check_by(&before, &token, NOW).is_ok());
    assert_eq!(place.refusal(&token), "the token is not good here");
}

#[test]
fn who_comes_in_while_the_key_goes_does_not_stay() {
    for _ in 0..200 {
        let place = Place::new();
        let token = place.mint(session());
        let other = rules(&[place.directory.path().join("two.pub.pem")]);
        let mut pass = Pass::none(Arc::clone(&place.gate), [127, 0, 0, 1].into());
        let begin = std::sync::Barrier::new(2);
        let shown = std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                place.gate.replace(other, NOW);
            });
            begin.wait();
            pass.show(Role::Session, Some(&token), NOW)
        });
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(shown.is_err() || pass.poll_dismissed(&mut cx).is_ready(), "it stays inside");
    }
}

#[tokio::test]
async fn who_is_inside_leaves_when_the_token_ends() {
    let place = Place::new();
    let inside = |wish: Wish| {
        let mut pass = Pass::none(Arc::clone(&place.gate), [127, 0, 0, 1].into());
        pass.show(wish.role, Some(&place.mint(wish)), NOW).unwrap();
        pass
    };
    let mut short = inside(Wish { life_s: 10, ..session() });
    let mut renewed = inside(Wish { life_s: 10, ..session() });
    let mut node = inside(node());
    let newer = place.mint(session());
    assert_eq!(renewed.renew(&newer, NOW).unwrap(), Some(NOW + 900));
    for other in [
        Wish { tenant: Some("other".to_owned()), ..session() },
        Wish { subject: "app-2".to_owned(), ..session() },
        self::node(),
    ] {
        assert!(renewed.renew(&place.mint(other), NOW).is_err());
    }
    place.gate.revoke(&[], NOW + 15);
    assert_eq!(short.dismissed().await.detail, "the token has expired");
    place.gate.revoke(&[Name::new(format!("sub:node:node-1:{NOW}")).unwrap()], NOW + 15);
    assert_eq!(node.dismissed().await.detail, "the token is revoked");
    let waits = std::time::Duration::from_millis(20);
    assert!(tokio::time::timeout(waits, renewed.dismissed()).await.is_err(), "it may stay");
    drop(renewed);
    place.gate.replace(rules(&[place.directory.path().join("two.pub.pem")]), NOW);
}

#[test]
fn a_nodes_token_bounds_what_it_declares() {
    let place = Place::new();
    let caller = place.gate.caller(Some(&place.mint(node())), NOW).unwrap();
    let declared = Declaration { max_slots: 256, ..Declaration::default() };
    let narrowed = caller.narrowed(declared.clone());
    assert_eq!(narrowed.max_slots, 3);
    assert_eq!(narrowed.tenants, Some([TenantId::new("acme").unwrap()].into()));
    assert_eq!(caller.narrowed(Declaration { max_slots: 2, ..declared }).max_slots, 2);
    assert!(caller.is_node("node-1").is_ok());
    assert_eq!(caller.is_node("node-2").unwrap_err().code, Code::Forbidden);
    let session = place.gate.caller(Some(&place.mint(session())), NOW).unwrap();
    assert!(session.is_node("app-1").is_err());
}

#[test]
fn tokens_that_cannot_be_are_not_signed() {
    let place = Place::new();
    for wish in [
        Wish { tenant: None, ..session() },
        Wish { subject: "a b".to_owned(), ..session() },
        Wish { tenant: Some("t".to_owned()), ..node() },
        Wish { max_slots: Some(257), ..node() },
        Wish { max_slots: Some(0), ..node() },
        Wish { role: Role::Admin, ..session() },
    ] {
        assert!(mint(&place.key("one"), wish.clone()).is_err(), "{wish:?}");
    }
    let missing = mint(&place.directory.path().join("three.key.pem"), session()).unwrap_err();
    assert!(missing.contains("three.key.pem"), "{missing}");
    let public = mint(&place.directory.path().join("one.pub.pem"), session()).unwrap_err();
    assert!(public.contains("no private key"), "{public}");
    assert!(Keys::read(&[place.key("one")]).err().unwrap().contains("no public key"));
}

fn openssl(arguments: &[&str]) -> String {
    let done = std::process::Command::new("openssl").args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Who signs tokens does so with other programs than this one.
#[test]
fn openssl_reads_the_keys_that_are_made_here() {
    let place = Place::new();
    let key = place.key("one");
    let public = openssl(&["pkey", "-in", key.to_str().unwrap(), "-pubout"]);
    let made = std::fs::read_to_string(place.directory.path().join("one.pub.pem")).unwrap();
    assert_eq!(public, made);
    let message = place.directory.path().join("message");
    std::fs::write(&message, "signed by openssl").unwrap();
    let (key, message) = (key.to_str().unwrap(), message.to_str().unwrap());
    let signature = place.directory.path().join("signature");
    openssl(&[
        "pkeyutl",
        "-sign",
        "-inkey",
        key,
        "-rawin",
        "-in",
        message,
        "-out",
        signature.to_str().unwrap(),
    ]);
    let own = keys::sign_for_tests(&place.key("one"), b"signed by openssl");
    assert_eq!(std::fs::read(signature).unwrap(), own);
}

/// Files of the older form, with the public key inside.
#[test]
fn private_keys_of_the_second_version_are_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let (key, public) = (directory.path().join("v2.key.pem"), directory.path().join("v2.pub.pem"));
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(made.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    std::fs::write(&key, pem).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
    let der = [&keys::SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    std::fs::write(
        &public,
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"),
    )
    .unwrap();
    let gate = Gate::new(rules(&[public]));
    assert!(gate.caller(Some(&mint(&key, session()).unwrap()), NOW).is_ok());
}

#[test]
fn keys_of_openssl_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let (key, public) = (directory.path().join("o.key.pem"), directory.path().join("o.pub.pem"));
    let (key_text, public_text) = (key.to_str().unwrap(), public.to_str().unwrap());
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", key_text]);
    openssl(&["pkey", "-in", key_text, "-pubout", "-out", public_text]);
    let gate = Gate::new(rules(&[public]));
    assert!(gate.caller(Some(&mint(&key, session()).unwrap()), NOW).is_ok());
    let rsa = directory.path().join("r.pub.pem");
    let rsa_key = directory.path().join("r.key.pem");
    openssl(&["genpkey", "-algorithm", "rsa", "-out", rsa_key.to_str().unwrap()]);
    openssl(&["pkey", "-in", rsa_key.to_str().unwrap(), "-pubout", "-out", rsa.to_str().unwrap()]);
    assert!(Keys::read(&[rsa]).err().unwrap().contains("no Ed25519 key"));
}
