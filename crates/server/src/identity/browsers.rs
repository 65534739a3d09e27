//! What a browser may be made to do here: which pages may call, and by which names the scheduler is called.
//!
//! This is the only place that decides about `Origin` and `Host`.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;

use super::authenticator::{Authenticator, Rules};
use crate::site::{Host, Origin};

/// Origins and hosts whose refusal is logged. More come only from somebody who makes them up.
const MAX_LOGGED: usize = 64;

/// Characters of one in the log.
const LOGGED_CHARS: usize = 128;

impl Authenticator {
    /// Whether the name by which it was called is the scheduler's own. Without tokens every call has to be
    /// by such a name, or a page could make its own name point here (DNS rebinding) and read everything. With
    /// tokens that page would have none, and names are checked only if the configuration has some.
    pub(crate) fn may_be_called(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let rules = self.rules();
        if !rules.keys.is_empty() && !rules.checks_hosts {
            return Ok(());
        }
        let Some(said) = said_host(uri, headers) else { return Ok(()) };
        let host = said.and_then(|said| Host::parse(said).ok_or(said));
        match host {
            Ok(host) if rules.own_hosts.has(&host) => Ok(()),
            other => {
                let said = other.as_ref().map_or_else(|said| (*said).to_owned(), Host::to_string);
                self.log_once(&said, |said| {
                    let allow = other.is_ok().then(|| format!("hosts = ['{said}']"));
                    let allow = allow.as_deref().unwrap_or("nothing: not a valid host");
                    tracing::warn!(
                        host = said,
                        "identity.allow" = allow,
                        "a request for an unknown host was refused; this line in [identity] would allow it"
                    );
                });
                let detail = "the Host of the request is not a host of this scheduler; identity.hosts lists them";
                Err(Refusal::new(Code::MisdirectedRequest, detail).because("other_host"))
            }
        }
    }

    /// Refuses what a page of another site makes a browser send. Whoever is no browser says nothing of
    /// where they come from, and needs a token all the same.
    pub(crate) fn may_come_from(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(origin) = headers.get(header::ORIGIN) else {
            // Simple requests of other sites come without one.
            let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
            return match site {
                Some(b"cross-site" | b"same-site") => Err(other_site()),
                _ => Ok(()),
            };
        };
        let rules = self.rules();
        let said = origin.to_str().unwrap_or_default();
        let page = Origin::parse(said);
        let host = headers.get(header::HOST).and_then(|host| Host::parse(host.to_str().ok()?));
        if page.as_ref().is_some_and(|page| rules.allows(page, host.as_ref())) {
            return Ok(());
        }
        self.log_once(said, |said| {
            let allow = page.as_ref().map(|page| rules.line_for(page));
            let allow = allow.as_deref().unwrap_or("nothing: not a valid origin");
            tracing::warn!(
                origin = said,
                "identity.allow" = allow,
                "a request from another origin was refused; this line in [identity] would allow it"
            );
        });
        Err(other_site())
    }

    /// The origin of a page that may read answers from elsewhere: exactly those of `identity.origins`. The scheduler's own
    /// pages need no leave.
    pub(crate) fn may_be_read_by(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let page = Origin::parse(origin.to_str().ok()?)?;
        self.rules().origins.contains(&page).then(|| origin.clone())
    }

    /// Whether pages of other sites may read answers.
    pub(crate) fn has_origins(&self) -> bool {
        !self.rules().origins.is_empty()
    }

    /// Calls `log` for the first refusal of each.
    fn log_once(&self, said: &str, log: impl FnOnce(&str)) {
        let said: String = said.chars().take(LOGGED_CHARS).collect();
        let mut logged = self.strangers.lock();
        if logged.len() < MAX_LOGGED && logged.insert(said.clone()) {
            drop(logged);
            log(&said);
        }
    }
}

impl Rules {
    /// Whether pages of this origin may call by this host.
    fn allows(&self, page: &Origin, host: Option<&Host>) -> bool {
        // Where no token is asked for, the host was found to be this scheduler's own before.
        self.origins.contains(page)
            || host.is_some_and(|host| page.is_at(host))
            || (self.keys.is_empty() && page.is_loopback())
    }

    /// The line of the configuration that would allow it beside those that are allowed now.
    fn line_for(&self, page: &Origin) -> String {
        let mut origins: Vec<String> =
            self.origins.iter().map(|page| format!("'{page}'")).collect();
        origins.sort_unstable();
        origins.push(format!("'{page}'"));
        format!("origins = [{}]", origins.join(", "))
    }
}

/// The host that a request is for; the target's own if it has one (RFC 9112 3.2.2). `Err` with what is there
/// instead of one, `None` if nobody says: every browser does.
fn said_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<Result<&'a str, &'a str>> {
    if let Some(authority) = uri.authority() {
        return Some(Ok(authority.as_str()));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?;
    match (host.to_str(), hosts.next()) {
        (Ok(host), None) => Some(Ok(host)),
        (Ok(_), Some(_)) => Some(Err("two hosts")),
        (Err(_), _) => Some(Err("no text")),
    }
}

/// Refuses a page whose origin is not allowed.
pub(crate) fn other_site() -> Refusal {
    let detail = "the origin of this page is not allowed; identity.origins lists the allowed ones";
    Refusal::new(Code::Forbidden, detail).because("other_site")
}

#[cfg(test)]
mod tests {
    use super::super::Keys;
    use super::*;
    use crate::site::OwnHosts;

    fn rules(tokens: bool) -> Rules {
        Rules {
            keys: if tokens { Keys::one("one", &[7; 32]) } else { Keys::default() },
            origins: [Origin::parse("https://talk.example.org/").unwrap()].into(),
            own_hosts: OwnHosts::new(["127.0.0.1".parse().unwrap()], Host::parse("lingua.lan")),
            ..Rules::default()
        }
    }

    fn comes(rules: Rules, host: &str, origin: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        Authenticator::new(rules).may_come_from(&headers).is_ok()
    }

    #[test]
    fn without_tokens_pages_on_any_loopback_name_and_port_may_call() {
        for origin in [
            "http://localhost:9001",
            "http://127.0.0.1:3000",
            "https://[::1]:8443",
            "http://app.localhost",
            "https://talk.example.org",
            "http://127.0.0.1:5010/",
        ] {
            assert!(comes(rules(false), "127.0.0.1:5010", origin), "{origin}");
        }
        assert!(comes(rules(false), "lingua.lan:5010", "http://lingua.lan:5010"));
        for origin in ["http://evil.test", "http://localhost.evil.test", "null", "http://10.0.0.1"]
        {
            assert!(!comes(rules(false), "127.0.0.1:5010", origin), "{origin}");
        }
    }

    #[test]
    fn with_tokens_only_its_own_pages_and_the_named_ones_may_call() {
        for origin in
            ["http://127.0.0.1:5010", "http://127.0.0.1:5010/", "https://talk.example.org/"]
        {
            assert!(comes(rules(true), "127.0.0.1:5010", origin), "{origin}");
        }
        assert!(comes(rules(true), "lingua.example", "https://lingua.example"));
        for origin in ["http://localhost:5010", "http://127.0.0.1:9001", "http://talk.example.org"]
        {
            assert!(!comes(rules(true), "127.0.0.1:5010", origin), "{origin}");
        }
    }

    fn called(rules: Rules, target: &str, hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        Authenticator::new(rules).may_be_called(&target.parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn without_tokens_a_name_that_is_not_its_own_is_refused() {
        for host in ["localhost:5010", "127.0.0.1", "[::1]:5010", "lingua.lan"] {
            assert!(called(rules(false), "/", &[host]), "{host}");
        }
        assert!(called(rules(false), "/", &[]), "no browser");
        for host in ["evil.test", "evil.test:5010", "10.0.0.1", "", "a b", "evil.test@localhost"] {
            assert!(!called(rules(false), "/", &[host]), "{host}");
        }
        assert!(!called(rules(false), "/", &["localhost", "evil.test"]));
        assert!(!called(rules(false), "http://evil.test/", &["localhost"]), "the target counts");
    }

    #[test]
    fn with_tokens_names_are_checked_if_some_are_configured() {
        assert!(called(rules(true), "/", &["scheduler.example"]));
        let named = Rules { checks_hosts: true, ..rules(true) };
        assert!(!called(named.clone(), "/", &["scheduler.example"]));
        assert!(called(named, "/", &["lingua.lan"]));
    }

    #[test]
    fn each_refusal_is_logged_once_and_not_without_end() {
        let authenticator = Authenticator::new(rules(false));
        let mut logged = 0;
        for number in 0..3 * MAX_LOGGED {
            for _ in 0..2 {
                authenticator.log_once(&format!("http://{number}.test"), |_| logged += 1);
            }
        }
        assert_eq!(logged, MAX_LOGGED);
        let line = rules(false).line_for(&Origin::parse("http://evil.test/").unwrap());
        assert_eq!(line, "origins = ['https://talk.example.org', 'http://evil.test']");
    }
}
