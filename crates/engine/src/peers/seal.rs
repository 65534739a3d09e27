//! The seal on an envelope: who sends it, to whom, with which key. An envelope lies in the store, where
//! others may write too.

use lingua_store::Instance;

use crate::secret::{FINGERPRINT_CHARS, MARK_CHARS, Secret};

/// Between the messages and the fingerprint of the key, and between that and the mark.
const BY: &str = ",\"by\":\"";
const MARK: &str = "\",\"mark\":\"";
const END: &str = "\"}";

/// Bytes that a seal takes.
pub(crate) const BYTES: usize = BY.len() + FINGERPRINT_CHARS + MARK.len() + MARK_CHARS + END.len();

/// An envelope's place in the world: it is worth nothing under another id, from or to anybody else.
pub(crate) struct Route<'a> {
    pub id: u128,
    pub from: &'a Instance,
    pub to: &'a Instance,
}

/// Nobody with a key of ours sealed this.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotSealed;

fn text(route: &Route<'_>, messages: &[u8]) -> String {
    let Route { id, from, to } = route;
    format!("envelope {id:032x} {from} {to} {}", blake3::hash(messages).to_hex())
}

/// Closes an envelope whose messages are written but for the last brace.
pub(crate) fn seal(secret: &Secret, route: &Route<'_>, body: &mut Vec<u8>) {
    let mark = secret.sign(&text(route, body));
    for part in [BY, secret.fingerprint(), MARK, &mark, END] {
        body.extend_from_slice(part.as_bytes());
    }
}

/// The fingerprint of the key that an envelope was sealed with; `None` of one without a seal, where
/// such are taken.
pub(crate) fn open<'a>(
    secret: &Secret,
    route: &Route<'_>,
    body: &'a [u8],
) -> Result<Option<&'a str>, NotSealed> {
    match split(body) {
        Some((messages, by, mark)) if secret.verify_by(by, &text(route, messages), mark) => {
            Ok(Some(by))
        }
        None if secret.takes_unsigned() => Ok(None),
        _ => Err(NotSealed),
    }
}

fn split(body: &[u8]) -> Option<(&[u8], &str, &str)> {
    let (messages, seal) = body.split_at(body.len().checked_sub(BYTES)?);
    let rest = str::from_utf8(seal).ok()?.strip_prefix(BY)?;
    let (by, rest) = rest.split_at_checked(FINGERPRINT_CHARS)?;
    Some((messages, by, rest.strip_prefix(MARK)?.strip_suffix(END)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_protocol::peer::Batch;

    const OLD: &str =
        "store:0000019a2b3c4d5e-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn instance(id: &str, boot: u64) -> Instance {
        Instance { id: id.parse().unwrap(), boot }
    }

    #[test]
    fn an_envelope_is_believed_as_it_was_sealed_and_not_otherwise() {
        let (a, b, secret) = (instance("a", 1), instance("b", 2), Secret::from_seed(b"ours"));
        let route = Route { id: 7, from: &a, to: &b };
        let mut body = b"{\"words\":[{\"slot_freed\":{\"node\":\"n\"}}]".to_vec();
        let bare = body.len();
        seal(&secret, &route, &mut body);
        assert_eq!(body.len(), bare + BYTES);
        assert_eq!(open(&secret, &route, &body), Ok(Some(secret.fingerprint())));
        let (messages, unknown) = Batch::read(&body).unwrap();
        assert_eq!((messages.len(), unknown), (1, 0), "a seal is no hindrance to reading");

        let elsewhere = instance("b", 3);
        for other in [
            Route { id: 8, from: &a, to: &b },
            Route { id: 7, from: &b, to: &b },
            Route { id: 7, from: &a, to: &elsewhere },
        ] {
            assert_eq!(open(&secret, &other, &body), Err(NotSealed));
        }
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 1;
            assert_eq!(open(&secret, &route, &changed), Err(NotSealed), "byte {at}");
        }
        assert_eq!(open(&Secret::from_seed(b"theirs"), &route, &body), Err(NotSealed));
        for unsealed in [&b"{\"words\":[]}"[..], b"", &body[..bare]] {
            assert_eq!(open(&secret, &route, unsealed), Err(NotSealed));
        }
    }

    #[test]
    fn without_a_seal_words_are_taken_while_the_key_is_the_stores() {
        let (a, b) = (instance("a", 1), instance("b", 2));
        let route = Route { id: 7, from: &a, to: &b };
        let during = Secret::read(OLD).unwrap();
        assert_eq!(open(&during, &route, b"{\"words\":[]}"), Ok(None));
        let mut forged = b"{\"words\":[]".to_vec();
        seal(&Secret::from_seed(b"theirs"), &route, &mut forged);
        assert_eq!(
            open(&during, &route, &forged),
            Err(NotSealed),
            "a wrong seal is worse than none"
        );
    }
}
