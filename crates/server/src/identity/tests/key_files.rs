//! Keys that other programs make and read.

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::*;

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
    let authenticator = Authenticator::new(rules(&[public]));
    assert!(authenticator.caller(Some(&mint(&key, session()).unwrap()), NOW).is_ok());
}

#[test]
fn keys_of_openssl_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let (key, public) = (directory.path().join("o.key.pem"), directory.path().join("o.pub.pem"));
    let (key_text, public_text) = (key.to_str().unwrap(), public.to_str().unwrap());
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", key_text]);
    openssl(&["pkey", "-in", key_text, "-pubout", "-out", public_text]);
    let authenticator = Authenticator::new(rules(&[public]));
    assert!(authenticator.caller(Some(&mint(&key, session()).unwrap()), NOW).is_ok());
    let rsa = directory.path().join("r.pub.pem");
    let rsa_key = directory.path().join("r.key.pem");
    openssl(&["genpkey", "-algorithm", "rsa", "-out", rsa_key.to_str().unwrap()]);
    openssl(&["pkey", "-in", rsa_key.to_str().unwrap(), "-pubout", "-out", rsa.to_str().unwrap()]);
    assert!(Keys::read(&[rsa]).err().unwrap().contains("not an Ed25519 key"));
}
