//! What a server must be before it is trusted with leases.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::keys;
use super::reply::text;
use super::url::{Target, Topology};
use super::wire::Wire;
use crate::error::{OpenError, SCHEMA};

const MIN_VERSION: (u32, u32) = (6, 2);

impl OpenError {
    pub(crate) fn from_connecting(target: &Target, error: &RedisError) -> Self {
        let (store, why) = (target.to_string(), error.to_string());
        let denied = matches!(
            error.kind(),
            ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm)
        );
        if denied || matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) {
            OpenError::Denied { store, why }
        } else {
            OpenError::Unreachable { store, why }
        }
    }
}

/// Checks every primary's version, role and eviction policy, and the store's schema. Gives the
/// generation of the one server there is, or nothing for a Cluster.
pub(crate) async fn check(mut wire: Wire, target: &Target) -> Result<String, OpenError> {
    let failed = |e: RedisError| OpenError::from_connecting(target, &e);
    let mut generation = String::new();
    for info in wire.query_primaries(redis::cmd("INFO")).await.map_err(failed)? {
        let info = text("INFO", info).unwrap_or_default();
        check_server(&info, target)?;
        generation =
            info.lines().find(|line| line.starts_with("master_replid:")).unwrap_or("").into();
    }
    let mut write = redis::cmd("SET");
    write.arg(keys::schema()).arg(SCHEMA).arg("NX");
    wire.query(&write).await.map_err(failed)?;
    let mut read = redis::cmd("GET");
    read.arg(keys::schema());
    let found = wire.query(&read).await.map_err(failed)?;
    let found = text("the schema", found).unwrap_or_default();
    let major = |schema: &str| schema.split('.').next().map(str::to_owned);
    if major(&found) != major(SCHEMA) {
        return Err(OpenError::Schema { store: target.to_string(), found });
    }
    Ok(if target.topology == Topology::Cluster { String::new() } else { generation })
}

fn check_server(info: &str, target: &Target) -> Result<(), OpenError> {
    let store = || target.to_string();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    };
    let found = field("redis_version");
    let mut parts = found.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < MIN_VERSION {
        return Err(OpenError::TooOld { store: store(), found });
    }
    if field("role") != "master" {
        return Err(OpenError::Replica { store: store() });
    }
    match field("maxmemory_policy").as_str() {
        "noeviction" => Ok(()),
        policy => Err(OpenError::Evicts { store: store(), policy: policy.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(version: &str, role: &str, policy: &str) -> Result<(), OpenError> {
        let info = format!(
            "# Server\r\nredis_version:{version}\r\n# Memory\r\nmaxmemory_policy:{policy}\r\n\
             # Replication\r\nrole:{role}\r\n"
        );
        check_server(&info, &Target::parse("redis://h:1").unwrap())
    }

    #[test]
    fn old_servers_replicas_and_evicting_servers_are_refused() {
        assert_eq!(checked("6.2.0", "master", "noeviction"), Ok(()));
        assert_eq!(checked("7.0.15", "master", "noeviction"), Ok(()));
        for old in ["6.0.16", "5.0.14", "", "nonsense"] {
            assert!(matches!(checked(old, "master", "noeviction"), Err(OpenError::TooOld { .. })));
        }
        assert!(matches!(checked("7.2.4", "slave", "noeviction"), Err(OpenError::Replica { .. })));
        for policy in ["allkeys-lru", "volatile-ttl", ""] {
            assert!(matches!(checked("7.2.4", "master", policy), Err(OpenError::Evicts { .. })));
        }
    }
}
