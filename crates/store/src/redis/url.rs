//! Store URLs: which servers, and how they stand to each other.

use std::fmt;
use std::net::IpAddr;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// How the servers stand to each other.
    pub topology: Topology,
    /// TLS to every data server.
    pub tls: bool,
    /// `user:password` as it stood in the URL, still escaped.
    credentials: Option<String>,
    /// `host:port` of each.
    hosts: Vec<String>,
    /// Database number; a Cluster has only 0.
    database: u32,
}

/// How the servers of a store stand to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// One server.
    Standalone,
    /// Sentinels that know which server is the primary of this name.
    Sentinel {
        /// The primary's name.
        name: String,
    },
    /// A Redis Cluster.
    Cluster,
}

impl Target {
    /// Reads `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://` and their TLS forms.
    /// The error is one sentence that says what to write instead, and repeats no password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| usage("there is no \"://\""))?;
        let (kind, tls) = match scheme {
            "redis" => ("standalone", false),
            "rediss" => ("standalone", true),
            "redis+sentinel" => ("sentinel", false),
            "rediss+sentinel" => ("sentinel", true),
            "redis+cluster" => ("cluster", false),
            "rediss+cluster" => ("cluster", true),
            other => return Err(usage(&format!("\"{other}\" is not a known scheme"))),
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains(['?', '#']) || place.contains(['?', '#']) {
            return Err(usage("options behind \"?\" are not known here"));
        }
        let (credentials, hosts) = match place.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials.to_owned()), hosts),
            None => (None, place),
        };
        let hosts: Vec<String> = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        let (topology, database) = match kind {
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(usage("the name of the primary is missing behind the hosts"));
                }
                (Topology::Sentinel { name: name.to_owned() }, number(database)?)
            }
            "cluster" if !matches!(path, "" | "0") => {
                return Err(usage("a Cluster has only database 0"));
            }
            "cluster" => (Topology::Cluster, 0),
            _ if hosts.len() > 1 => {
                return Err(usage("several hosts need redis+sentinel:// or redis+cluster://"));
            }
            _ => (Topology::Standalone, number(path)?),
        };
        Ok(Target { topology, tls, credentials, hosts, database })
    }

    /// Whether every host that it names is this machine. Where Sentinels and Clusters send one from
    /// there is theirs to say.
    pub fn is_loopback(&self) -> bool {
        self.hosts.iter().all(|host| {
            let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
            let address = name.trim_start_matches('[').trim_end_matches(']');
            name.eq_ignore_ascii_case("localhost")
                || address.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
        })
    }

    /// URLs of the named hosts as data servers, with credentials.
    pub(crate) fn data_urls(&self) -> Vec<String> {
        self.hosts.iter().map(|host| self.data_url(host)).collect()
    }

    /// The URL of one data server.
    pub(crate) fn data_url(&self, host: &str) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let credentials = self.credentials.as_ref().map(|c| format!("{c}@")).unwrap_or_default();
        format!("{scheme}://{credentials}{host}/{}", self.database)
    }

    /// URLs of the named hosts as Sentinels: same TLS, no credentials of the data servers.
    pub(crate) fn sentinel_urls(&self) -> Vec<String> {
        let scheme = if self.tls { "rediss" } else { "redis" };
        self.hosts.iter().map(|host| format!("{scheme}://{host}/")).collect()
    }
}

fn usage(wrong: &str) -> String {
    format!(
        "{wrong}; a store URL is memory, redis://host:port/db, rediss://…, \
         redis+sentinel://h1:p1,h2:p2/primary-name or redis+cluster://h1:p1,h2:p2"
    )
}

fn host(text: &str) -> Result<String, String> {
    let (name, port) = text.rsplit_once(':').unwrap_or((text, "6379"));
    let port_ok = port.parse::<u16>().is_ok_and(|port| port > 0);
    let name_ok =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_[]:".contains(c));
    if !name_ok || !port_ok {
        return Err(usage(&format!("\"{text}\" is not host:port")));
    }
    Ok(format!("{name}:{port}"))
}

fn number(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        digits => {
            digits.parse().map_err(|_| usage(&format!("\"{text}\" is not a database number")))
        }
    }
}

/// For people: no credentials.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let hosts = self.hosts.join(",");
        match &self.topology {
            Topology::Standalone => write!(f, "{scheme}://{hosts}/{}", self.database),
            Topology::Sentinel { name } => write!(f, "{scheme}+sentinel://{hosts}/{name}"),
            Topology::Cluster => write!(f, "{scheme}+cluster://{hosts}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topology_has_its_url_and_its_description_keeps_secrets() {
        for (url, shown) in [
            ("redis://h", "redis://h:6379/0"),
            ("redis://u:p%40@h:7/3", "redis://h:7/3"),
            ("rediss://:p@h:7", "rediss://h:7/0"),
            ("redis+sentinel://a:1,b:2/main", "redis+sentinel://a:1,b:2/main"),
            ("rediss+cluster://u:p@a:1,b:2/", "rediss+cluster://a:1,b:2"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.to_string(), shown);
            assert!(!format!("{target:?}").contains("p%40"));
        }
        let target = Target::parse("redis+sentinel://u:p@a:1/main/2").unwrap();
        assert_eq!(target.data_url("x:9"), "redis://u:p@x:9/2");
        assert_eq!(target.sentinel_urls(), ["redis://a:1/"]);
    }

    #[test]
    fn this_machine_is_known_by_its_addresses_and_by_one_name() {
        for (hosts, loopback) in [
            ("127.0.0.1:7", true),
            ("127.8.9.1", true),
            ("localhost:6379", true),
            ("LOCALHOST", true),
            ("[::1]:6379", true),
            ("[::ffff:127.0.0.1]:6379", true),
            ("127.0.0.1:1,localhost:2", true),
            ("127.0.0.1:1,10.0.0.1:2", false),
            ("0.0.0.0:1", false),
            ("10.0.0.1", false),
            ("redis", false),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org:6379", false),
            ("[fe80::1]:1", false),
        ] {
            let target = Target::parse(&format!("redis+cluster://u:p@{hosts}")).unwrap();
            assert_eq!(target.is_loopback(), loopback, "{hosts}");
        }
    }

    #[test]
    fn a_wrong_url_is_one_sentence_without_the_password() {
        for url in [
            "localhost",
            "http://h",
            "redis://",
            "redis://:secret@h:0",
            "redis://:secret@h:x",
            "redis://a,b",
            "redis://h/x",
            "redis+sentinel://h",
            "redis+cluster://h/1",
            "redis://h/0?timeout=1",
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.contains("a store URL is") && !error.contains("secret"), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
