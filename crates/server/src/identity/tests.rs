use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lingua_store::rates::Name;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

mod key_files;

/// The time of all tests.
const NOW: u64 = 1_790_000_000;

/// Two keys in files, of which the authenticator knows the first.
struct Place {
    directory: TempDir,
    authenticator: Arc<Authenticator>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            let (private, public) = make_key().unwrap();
            std::fs::write(directory.path().join(format!("{name}.key.pem")), private).unwrap();
            std::fs::write(directory.path().join(format!("{name}.pub.pem")), public).unwrap();
        }
        let authenticator = Authenticator::new(rules(&[directory.path().join("one.pub.pem")]));
        Place { directory, authenticator }
    }

    fn key(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.key.pem"))
    }

    fn mint(&self, wish: Wish) -> String {
        mint(&self.key("one"), wish).unwrap()
    }

    fn refusal(&self, token: &str) -> String {
        let refusal = self.authenticator.caller(Some(token), NOW).unwrap_err();
        assert_eq!(refusal.code, Code::Unauthorized);
        refusal.detail
    }

    /// The word for what is wrong with it. The sentence says more, and nothing of the token.
    fn flaw(&self, token: &str) -> &'static str {
        let refusal = self.authenticator.caller(Some(token), NOW).unwrap_err();
        assert_eq!(refusal.code, Code::Unauthorized);
        let said = refusal.detail.strip_prefix("the token is not good here: ");
        assert!(said.is_some_and(|said| said.len() > 10), "{}", refusal.detail);
        for part in token.split('.').filter(|part| part.len() > 3) {
            assert!(!refusal.detail.contains(part), "{}", refusal.detail);
        }
        refusal.reason.unwrap()
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
        viewer_life_s: 3_600,
        metrics_life_s: 1_000_000,
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
        region: None,
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
    let Caller::Known(known) =
        place.authenticator.caller(Some(&place.mint(session())), NOW).unwrap()
    else {
        panic!("known");
    };
    assert_eq!((known.role, known.subject.as_str()), (Role::Session, "app-1"));
    assert_eq!(known.tenant, Some(TenantId::new("acme").unwrap()));
    let Caller::Known(known) = place.authenticator.caller(Some(&place.mint(node())), NOW).unwrap()
    else {
        panic!("known");
    };
    assert_eq!((known.max_slots, known.tenants.as_ref().unwrap().len()), (Some(3), 1));
    // What a token says is what can be forged with the right key: the forger itself is not at fault.
    assert!(place.authenticator.caller(Some(&forged(&place, |_, _| {})), NOW).is_ok());
}

#[test]
fn without_a_token_nobody_is_let_in_and_without_keys_everybody() {
    let place = Place::new();
    assert_eq!(place.authenticator.caller(None, NOW).unwrap_err().code, Code::Unauthorized);
    let open = Authenticator::open(None);
    assert!(open.is_open());
    assert!(matches!(open.caller(None, NOW), Ok(Caller::Anyone)));
    assert!(matches!(open.caller(Some("anything"), NOW), Ok(Caller::Anyone)));
}

#[test]
fn a_token_that_is_not_exactly_right_is_refused() {
    type Change = fn(&mut Value, &mut Value);
    let wrong: [(&str, &str, Change); 34] = [
        ("no exp", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("exp"))),
        ("no nbf", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("nbf"))),
        ("no aud", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("aud"))),
        ("no iss", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("iss"))),
        ("no sub", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("sub"))),
        ("no jti", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("jti"))),
        ("no role", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("role"))),
        ("no tenant", "bad_claims", |_, c| drop(c.as_object_mut().unwrap().remove("tenant"))),
        ("exp as text", "bad_claims", |_, c| c["exp"] = json!((NOW + 900).to_string())),
        ("exp with a fraction", "bad_claims", |_, c| c["exp"] = json!(NOW as f64 + 900.5)),
        ("exp below zero", "bad_claims", |_, c| c["exp"] = json!(-1)),
        ("exp null", "bad_claims", |_, c| c["exp"] = Value::Null),
        ("exp before nbf", "bad_claims", |_, c| c["exp"] = json!(NOW - 1)),
        ("exp for ever", "lives_too_long", |_, c| c["exp"] = json!(u64::MAX)),
        ("lives a second too long", "lives_too_long", |_, c| c["exp"] = json!(NOW + 901)),
        ("nbf long ago", "lives_too_long", |_, c| c["nbf"] = json!(0)),
        ("other audience", "other_audience", |_, c| c["aud"] = json!("lingua2")),
        ("other issuer", "other_issuer", |_, c| c["iss"] = json!("mallory")),
        ("empty subject", "bad_claims", |_, c| c["sub"] = json!("")),
        ("subject with a colon", "bad_claims", |_, c| c["sub"] = json!("a:b")),
        ("long subject", "bad_claims", |_, c| c["sub"] = json!("x".repeat(65))),
        ("tenant that is no id", "bad_claims", |_, c| c["tenant"] = json!("a/b")),
        ("unknown role", "bad_claims", |_, c| c["role"] = json!("root")),
        ("another role", "other_type", |_, c| c["role"] = json!("admin")),
        ("role as a list", "bad_claims", |_, c| c["role"] = json!(["session", "admin"])),
        ("slots of a session", "bad_claims", |_, c| c["max_slots"] = json!(5)),
        ("type of another role", "other_type", |h, _| h["typ"] = json!("lingua-admin+jwt")),
        ("no type", "other_type", |h, _| drop(h.as_object_mut().unwrap().remove("typ"))),
        ("no kid", "unknown_key", |h, _| drop(h.as_object_mut().unwrap().remove("kid"))),
        ("a kid that is a path", "unknown_key", |h, _| h["kid"] = json!("../one")),
        ("a critical extension", "critical_header", |h, _| h["crit"] = json!(["exp"])),
        ("critical, and nothing", "critical_header", |h, _| h["crit"] = json!([])),
        ("alg none", "unreadable", |h, _| h["alg"] = json!("none")),
        ("alg HS256", "other_algorithm", |h, _| h["alg"] = json!("HS256")),
    ];
    let place = Place::new();
    for (what, reason, change) in wrong {
        let token = forged(&place, change);
        assert_eq!(place.flaw(&token), reason, "{what}");
    }
}

#[test]
fn a_token_of_another_key_or_none_is_refused() {
    let place = Place::new();
    let good = place.mint(session());
    let parts: Vec<&str> = good.split('.').collect();
    let others = mint(&place.key("two"), session()).unwrap();
    let others: Vec<&str> = others.split('.').collect();
    for (token, reason) in [
        (mint(&place.key("two"), session()).unwrap(), "unknown_key"),
        // The right key's name over another key's signature.
        (format!("{}.{}.{}", parts[0], parts[1], others[2]), "bad_signature"),
        (format!("{}.{}.", parts[0], parts[1]), "bad_signature"),
        (format!("{}.{}", parts[0], parts[1]), "unreadable"),
        (format!("{}.{}.{}", parts[0], others[1], parts[2]), "bad_signature"),
        (format!("{good}A"), "bad_signature"),
        (good[1..].to_owned(), "unreadable"),
        (String::new(), "unreadable"),
        (".".repeat(5), "unreadable"),
        ("x".repeat(1 << 20), "too_long"),
        ("\u{0}\u{ffff}".to_owned(), "unreadable"),
    ] {
        assert_eq!(place.flaw(&token), reason, "{token:.80}");
    }
}

#[test]
fn a_token_is_good_from_its_first_second_to_its_last() {
    let place = Place::new();
    let token = place.mint(session());
    let at = |now| place.authenticator.caller(Some(&token), now).map_err(|refusal| refusal.detail);
    assert_eq!(at(NOW - 6).unwrap_err(), "the token is not good yet");
    assert!(at(NOW - 5).is_ok(), "clocks differ a little");
    assert!(at(NOW + 904).is_ok());
    assert_eq!(at(NOW + 905).unwrap_err(), "the token has expired");
}

#[test]
fn a_revoked_token_is_refused_and_so_are_all_of_a_subject() {
    let place = Place::new();
    let (one, other) = (place.mint(session()), place.mint(session()));
    assert!(place.authenticator.caller(Some(&one), NOW).is_ok());
    let jti = claims_of(&one).unwrap()["jti"].as_str().unwrap().to_owned();
    place.authenticator.revoke(&[Name::new(format!("jti:{jti}")).unwrap()], NOW);
    assert_eq!(place.refusal(&one), "the token is revoked");
    assert!(place.authenticator.caller(Some(&other), NOW).is_ok());
    place.authenticator.revoke(&[Name::new(format!("sub:session:app-1:{NOW}")).unwrap()], NOW);
    assert_eq!(place.refusal(&other), "the token is revoked");
    let later = place.mint(Wish { not_before_s: NOW + 1, ..session() });
    assert!(
        place.authenticator.caller(Some(&later), NOW + 1).is_ok(),
        "a new one of theirs is good"
    );
    place.authenticator.revoke(&[Name::new(format!("sub:node:app-1:{NOW}")).unwrap()], NOW);
    assert!(
        place.authenticator.caller(Some(&one), NOW).is_ok(),
        "another role's subject is another one"
    );
    let nonsense = ["jti", "sub:root:a:1", "sub:node:a:x", "a:b:c:d:e"].map(Name::new);
    place.authenticator.revoke(&nonsense.map(Result::unwrap), NOW);
    assert!(place.authenticator.caller(Some(&one), NOW).is_ok());
}

#[test]
fn a_token_that_begins_in_a_moment_does_not_survive_the_revocation_of_its_subject() {
    let place = Place::new();
    let ahead = place.mint(Wish { not_before_s: NOW + 5, ..session() });
    assert!(place.authenticator.caller(Some(&ahead), NOW).is_ok(), "clocks differ a little");
    let mark = place.authenticator.mark_of_subject(Role::Session, "app-1", NOW);
    place.authenticator.revoke(&[Name::new(mark).unwrap()], NOW);
    for later in [0, 5, 6, 800] {
        let refusal = place.authenticator.caller(Some(&ahead), NOW + later).unwrap_err();
        assert_eq!(refusal.detail, "the token is revoked", "{later} s later");
    }
    let newer = place.mint(Wish { not_before_s: NOW + 6, ..session() });
    assert!(place.authenticator.caller(Some(&newer), NOW + 6).is_ok());
}

#[test]
fn keys_change_while_it_runs() {
    let place = Place::new();
    let (old, new) = (place.mint(session()), mint(&place.key("two"), session()).unwrap());
    let file = |name: &str| place.directory.path().join(format!("{name}.pub.pem"));
    assert!(place.authenticator.caller(Some(&old), NOW).is_ok());
    place.authenticator.replace(rules(&[file("one"), file("two")]), NOW);
    assert!(
        place.authenticator.caller(Some(&old), NOW).is_ok()
            && place.authenticator.caller(Some(&new), NOW).is_ok()
    );
    place.authenticator.replace(rules(&[file("two")]), NOW);
    assert_eq!(place.flaw(&old), "unknown_key");
    assert!(place.authenticator.caller(Some(&new), NOW).is_ok());
}

#[test]
fn what_was_being_checked_when_its_key_went_is_not_remembered() {
    let place = Place::new();
    let token = place.mint(session());
    let before = place.authenticator.rules();
    place.authenticator.replace(rules(&[place.directory.path().join("two.pub.pem")]), NOW);
    // It began before the key was gone, and ends after it.
    assert!(place.authenticator.check_by(&before, &token, NOW).is_ok());
    assert_eq!(place.flaw(&token), "unknown_key");
}

#[test]
fn who_comes_in_while_the_key_goes_does_not_stay() {
    for _ in 0..200 {
        let place = Place::new();
        let token = place.mint(session());
        let other = rules(&[place.directory.path().join("two.pub.pem")]);
        let mut auth = SocketAuth::none(Arc::clone(&place.authenticator), [127, 0, 0, 1].into());
        let begin = std::sync::Barrier::new(2);
        let shown = std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                place.authenticator.replace(other, NOW);
            });
            begin.wait();
            auth.show(Role::Session, Some(&token), NOW)
        });
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(shown.is_err() || auth.poll_dismissed(&mut cx).is_ready(), "it stays inside");
    }
}

#[tokio::test]
async fn who_is_inside_leaves_when_the_token_ends() {
    let place = Place::new();
    let inside = |wish: Wish| {
        let mut auth = SocketAuth::none(Arc::clone(&place.authenticator), [127, 0, 0, 1].into());
        auth.show(wish.role, Some(&place.mint(wish)), NOW).unwrap();
        auth
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
    place.authenticator.revoke(&[], NOW + 15);
    assert_eq!(short.dismissed().await.detail, "the token has expired");
    place.authenticator.revoke(&[Name::new(format!("sub:node:node-1:{NOW}")).unwrap()], NOW + 15);
    assert_eq!(node.dismissed().await.detail, "the token is revoked");
    let waits = std::time::Duration::from_millis(20);
    assert!(tokio::time::timeout(waits, renewed.dismissed()).await.is_err(), "it may stay");
    drop(renewed);
    place.authenticator.replace(rules(&[place.directory.path().join("two.pub.pem")]), NOW);
}

#[test]
fn a_nodes_token_says_where_it_is_and_no_other_region_is_taken() {
    let place = Place::new();
    let wish = Wish { region: Some("eu".to_owned()), ..node() };
    let caller = place.authenticator.caller(Some(&place.mint(wish)), NOW).unwrap();
    let in_region = |name: Option<&str>| {
        let region = name.map(|name| name.parse().unwrap());
        caller.narrowed(Declaration { max_slots: 1, region, ..Declaration::default() })
    };
    for said in [None, Some("eu")] {
        assert_eq!(in_region(said).unwrap().region.unwrap().as_str(), "eu", "{said:?}");
    }
    let refusal = in_region(Some("us")).unwrap_err();
    assert_eq!(refusal.code, Code::Forbidden);
    assert_eq!(refusal.detail, "region: the token is for eu, not for us");
}

#[test]
fn a_nodes_token_bounds_what_it_declares() {
    let place = Place::new();
    let caller = place.authenticator.caller(Some(&place.mint(node())), NOW).unwrap();
    let declared = Declaration { max_slots: 256, ..Declaration::default() };
    let narrowed = caller.narrowed(declared.clone()).unwrap();
    assert_eq!(narrowed.max_slots, 3);
    assert_eq!(narrowed.tenants, Some([TenantId::new("acme").unwrap()].into()));
    assert_eq!(caller.narrowed(Declaration { max_slots: 2, ..declared }).unwrap().max_slots, 2);
    assert!(caller.is_node("node-1").is_ok());
    assert_eq!(caller.is_node("node-2").unwrap_err().code, Code::Forbidden);
    let session = place.authenticator.caller(Some(&place.mint(session())), NOW).unwrap();
    assert!(session.is_node("app-1").is_err());
}

#[test]
fn every_role_has_its_own_limit_of_life() {
    let place = Place::new();
    let plain = Wish { tenant: None, subject: "ops".to_owned(), ..session() };
    for (role, limit_s) in [(Role::Admin, 3_600), (Role::Viewer, 3_600), (Role::Metrics, 1_000_000)]
    {
        let wish = |life_s| Wish { role, life_s, ..plain.clone() };
        let Caller::Known(known) =
            place.authenticator.caller(Some(&place.mint(wish(limit_s))), NOW).unwrap()
        else {
            panic!("known");
        };
        assert_eq!(known.role, role);
        let longer = place.mint(wish(limit_s + 1));
        assert_eq!(place.flaw(&longer), "lives_too_long");
        let said = format!("{limit_s} s, which is identity.{}_life_s", role.as_str());
        assert!(place.refusal(&longer).contains(&said), "{}", place.refusal(&longer));
    }
    assert!(place.authenticator.revoked_for().as_secs() > 1_000_000, "the longest of all roles");
}

#[test]
fn who_makes_a_token_is_warned_of_long_lives_and_of_what_it_can_change() {
    let warned = |role, life_s, usual_s| -> Vec<String> { warnings(role, life_s, usual_s) };
    let month = 30 * 24 * 3_600;
    assert!(warned(Role::Viewer, 60, 60).is_empty());
    assert!(warned(Role::Metrics, month, month).is_empty(), "as long as it may be by default");
    let admin = warned(Role::Admin, 60, 3_600);
    assert!(admin.len() == 1 && admin[0].contains("--role viewer"), "{admin:?}");
    let long = warned(Role::Metrics, 365 * 24 * 3_600, month);
    assert!(long[0].contains("identity.metrics_life_s is at least 31536000"), "{long:?}");
    assert!(long.len() == 2 && long[1].contains("365 days"), "{long:?}");
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
        Wish { region: Some("e u".to_owned()), ..node() },
        Wish { region: Some("eu".to_owned()), ..session() },
        Wish { role: Role::Admin, ..session() },
        Wish { role: Role::Viewer, ..session() },
        Wish { role: Role::Metrics, max_slots: Some(1), tenant: None, ..session() },
    ] {
        assert!(mint(&place.key("one"), wish.clone()).is_err(), "{wish:?}");
    }
    let missing = mint(&place.directory.path().join("three.key.pem"), session()).unwrap_err();
    assert!(missing.contains("three.key.pem"), "{missing}");
    let public = mint(&place.directory.path().join("one.pub.pem"), session()).unwrap_err();
    assert!(public.contains("not a private key"), "{public}");
    assert!(Keys::read(&[place.key("one")]).err().unwrap().contains("not a public key"));
}
