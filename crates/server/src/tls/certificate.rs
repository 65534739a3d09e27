//! What a certificate says. Its signature is somebody else's to check.

use lingua_core::NodeId;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// What the name of a node begins with among the URIs of its certificate. A name of a host would do
/// as well, but then every web server that has a certificate of the same authority were a node.
const NODE_URI: &str = "lingua:node:";

/// A certificate, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Certificate {
    fingerprint: String,
    /// The node that it names.
    node: Named,
    begins: u64,
    expires: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Named {
    Nobody,
    Node(NodeId),
    /// Several nodes, or one that cannot be.
    Unclear,
}

impl Certificate {
    /// Reads it; an error says what is wrong.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let read = EndEntityCert::try_from(der)
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let (begins, expires) =
            validity(der).ok_or("the certificate does not say until when it is good")?;
        let mut named = Named::Nobody;
        for name in read.valid_uri_names().filter_map(|uri| uri.strip_prefix(NODE_URI)) {
            named = match (named, NodeId::new(name)) {
                (Named::Nobody, Ok(node)) => Named::Node(node),
                _ => Named::Unclear,
            };
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, der);
        let fingerprint = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Certificate { fingerprint, node: named, begins, expires })
    }

    /// The node that it names, if it is exactly one.
    pub(crate) fn node(&self) -> Option<&NodeId> {
        match &self.node {
            Named::Node(node) => Some(node),
            Named::Nobody | Named::Unclear => None,
        }
    }

    pub(crate) fn names_no_node(&self) -> bool {
        self.node == Named::Nobody
    }

    /// The beginning of its SHA-256, as `openssl x509 -fingerprint -sha256` has it.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// In epoch seconds.
    pub(crate) fn begins(&self) -> u64 {
        self.begins
    }

    /// In epoch seconds.
    pub(crate) fn expires(&self) -> u64 {
        self.expires
    }
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// From when and until when, in epoch seconds. The library that checks it does not tell.
fn validity(der: &[u8]) -> Option<(u64, u64)> {
    let (_, certificate, _) = element(der)?;
    let (_, mut rest, _) = element(certificate)?;
    // Version, serial number, algorithm, issuer; then what is looked for.
    if rest.first() == Some(&VERSION) {
        (_, _, rest) = element(rest)?;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        let (found, _, after) = element(rest)?;
        if found != tag {
            return None;
        }
        rest = after;
    }
    let (SEQUENCE, validity, _) = element(rest)? else { return None };
    let (tag, begins, rest) = element(validity)?;
    let begins = seconds(tag, begins)?;
    let (tag, expires, _) = element(rest)?;
    Some((begins, seconds(tag, expires)?))
}

/// The first element of DER: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if bytes.len() > 4 {
                return None;
            }
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn seconds(tag: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: u64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let two = |at: usize| rest[at..at + 2].parse::<u64>().ok();
    let (month, day) = (two(0)?, two(2)?);
    let (hour, minute, second) = (two(4)?, two(6)?, two(8)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 by the civil calendar, with years that begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        for (tag, text, found) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "261116072301Z", Some(1_794_813_781)),
            (UTC_TIME, "240229235959Z", Some(1_709_251_199)),
            (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
            (GENERALIZED_TIME, "20000301000000Z", Some(951_868_800)),
            (UTC_TIME, "500101000000Z", None),
            (UTC_TIME, "261116072301", None),
            (UTC_TIME, "261316072301Z", None),
            (UTC_TIME, "2611160723+1Z", None),
            (GENERALIZED_TIME, "261116072301Z", None),
        ] {
            assert_eq!(seconds(tag, text.as_bytes()), found, "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_an_error_and_no_panic() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["x".to_owned()]).unwrap();
        let made = params.self_signed(&key).unwrap();
        let der = made.der().to_vec();
        assert!(validity(&der).is_some());
        for end in 0..der.len() {
            assert!(Certificate::read(&CertificateDer::from(&der[..end])).is_err());
            let _ = validity(&der[..end]);
        }
    }
}
