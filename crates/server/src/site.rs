//! Origins of web pages and hosts of requests, in one canonical form, so that two of them can be compared.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use axum::http::Uri;

/// Characters of a host name (RFC 1035), a port beside it.
const MAX_CHARS: usize = 260;

/// A host as `Host` names it: lower case, without the dot at the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Host {
    /// Of a name, or an address without brackets.
    name: String,
    port: Option<u16>,
}

impl Host {
    /// Reads `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_CHARS {
            return None;
        }
        let (name, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((address, rest))) => {
                let address: Ipv6Addr = address.parse().ok()?;
                (address.to_string(), rest)
            }
            Some(None) => return None,
            None => {
                let at = text.find(':').unwrap_or(text.len());
                let name = text[..at].strip_suffix('.').unwrap_or(&text[..at]);
                let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                if name.is_empty() || !name.chars().all(known) {
                    return None;
                }
                (name.to_ascii_lowercase(), &text[at..])
            }
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Host { name, port })
    }

    /// The address, if it is one and no name. No name server has a say in where it leads.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.name.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// This machine, whatever name servers say: browsers do not ask them for these names.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.address() {
            Some(address) => address.is_loopback(),
            None => self.name == "localhost" || self.name.ends_with(".localhost"),
        }
    }

    /// Whether `other` has the same name, and the same port if this one has any.
    pub(crate) fn covers(&self, other: &Host) -> bool {
        self.name == other.name && self.port.is_none_or(|port| other.port == Some(port))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(&self.name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The origin of a page: scheme, host and port, without the port that the scheme has anyway.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Origin {
    secure: bool,
    host: Host,
}

impl Origin {
    /// Reads `http://host[:port]` or `https://…`, with or without a slash behind it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = Host::parse(rest.strip_suffix('/').unwrap_or(rest))?;
        Some(Origin::of(secure, host))
    }

    fn of(secure: bool, mut host: Host) -> Self {
        let usual = if secure { 443 } else { 80 };
        host.port = host.port.filter(|port| *port != usual);
        Origin { secure, host }
    }

    /// Its host, on any port.
    pub(crate) fn into_host(self) -> Host {
        Host { port: None, ..self.host }
    }

    /// On a name or an address of the machine that the browser runs on.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host.is_loopback()
    }

    /// Whether the page came from the host that a request names. A proxy may have ended TLS between them:
    /// the scheme is the page's.
    pub(crate) fn is_at(&self, host: &Host) -> bool {
        *self == Origin::of(self.secure, host.clone())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)
    }
}

/// By which names the scheduler may be called where no token is asked for.
///
/// A page can make its own name point at this machine (DNS rebinding); to the browser every call is then one
/// within that page's site. The name in `Host` is what tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnHosts {
    /// It listens beyond loopback: addresses count as its own. No name server can make a page have one.
    addresses: bool,
    /// Where other instances call it, and what the configuration names.
    named: Vec<Host>,
}

impl OwnHosts {
    /// Of a scheduler that listens on these addresses and has these names.
    pub(crate) fn new(
        listens: impl IntoIterator<Item = IpAddr>,
        named: impl IntoIterator<Item = Host>,
    ) -> Self {
        let mut listens = listens.into_iter();
        OwnHosts {
            addresses: listens.any(|address| !address.is_loopback()),
            named: named.into_iter().collect(),
        }
    }

    /// Whether a request for this host is meant for this scheduler.
    pub(crate) fn has(&self, host: &Host) -> bool {
        host.is_loopback()
            || (self.addresses && host.address().is_some())
            || self.named.iter().any(|own| own.covers(host))
    }
}

/// An address of HTTP, with or without TLS, and without a password.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CatalogueUrl(Uri);

impl FromStr for CatalogueUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url: Uri = text.parse().map_err(|_| "is no URL".to_owned())?;
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        match url.authority() {
            Some(authority) if is_http && !authority.as_str().contains('@') => {
                Ok(CatalogueUrl(url))
            }
            _ => Err("is http:// or https:// with a host, and without a password".to_owned()),
        }
    }
}

impl CatalogueUrl {
    /// The address.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for CatalogueUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap_or_else(|| panic!("{text} is a host"))
    }

    fn origin(text: &str) -> Origin {
        Origin::parse(text).unwrap_or_else(|| panic!("{text} is an origin"))
    }

    #[test]
    fn a_host_has_one_form() {
        for (text, form) in [
            ("LocalHost.", "localhost"),
            ("example.org:80", "example.org:80"),
            ("[0:0:0:0:0:0:0:1]:5010", "[::1]:5010"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(host(text).to_string(), form);
        }
        for wrong in ["", ":80", "a b", "a/b", "user@host", "[::1", "[x]", "a:", "a:99999", "a:1:2"]
        {
            assert_eq!(Host::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Host::parse(&"a".repeat(300)), None);
    }

    #[test]
    fn only_names_that_never_leave_this_machine_are_loopback() {
        for own in ["localhost:1", "a.localhost", "127.0.0.1", "127.9.9.9:80", "[::1]:5010"] {
            assert!(host(own).is_loopback(), "{own}");
        }
        for other in ["evil.test", "localhost.evil.test", "notlocalhost", "10.0.0.1", "0.0.0.0"] {
            assert!(!host(other).is_loopback(), "{other}");
        }
    }

    #[test]
    fn a_slash_and_the_usual_port_make_no_other_origin() {
        assert_eq!(origin("https://talk.example.org/"), origin("HTTPS://Talk.Example.Org:443"));
        assert_eq!(origin("http://a:80").to_string(), "http://a");
        assert_ne!(origin("http://a"), origin("https://a"));
        assert_ne!(origin("http://a:81"), origin("http://a"));
        for wrong in ["null", "", "http://", "ftp://a", "http://a//", "http://a/b", "http://b@a"] {
            assert_eq!(Origin::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_page_is_at_the_host_that_it_came_from() {
        assert!(origin("http://a:5010").is_at(&host("A:5010")));
        assert!(origin("https://a").is_at(&host("a")), "a proxy ended TLS");
        assert!(origin("https://a").is_at(&host("a:443")));
        assert!(!origin("https://a").is_at(&host("a:80")));
        assert!(!origin("http://a:5010").is_at(&host("a.evil.test:5010")));
    }

    #[test]
    fn on_loopback_only_loopback_names_and_the_named_ones_are_its_own() {
        let own = OwnHosts::new([LOOPBACK], [host("lingua.lan"), host("other.lan:81")]);
        for good in ["localhost", "127.0.0.1:5010", "[::1]", "lingua.lan:5010", "other.lan:81"] {
            assert!(own.has(&host(good)), "{good}");
        }
        for bad in ["evil.test", "10.0.0.1", "0.0.0.0:5010", "other.lan:82", "x.lingua.lan"] {
            assert!(!own.has(&host(bad)), "{bad}");
        }
    }

    #[test]
    fn beyond_loopback_addresses_are_its_own_and_names_are_not() {
        let own = OwnHosts::new([LOOPBACK, "0.0.0.0".parse().unwrap()], []);
        for good in ["10.0.0.1:5010", "[2001:db8::1]", "localhost"] {
            assert!(own.has(&host(good)), "{good}");
        }
        assert!(!own.has(&host("evil.test")));
    }
}
