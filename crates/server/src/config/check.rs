//! What must fit together.

use std::path::Path;

use lingua_core::fleet::RankRule;
use lingua_engine::Settings;
use lingua_engine::cluster::presence::is_address;
use lingua_store::open::MEMORY;

use super::options::{Config, Identity};
use crate::site::{Host, Origin};

/// Everything that does not.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let mut must = |holds: bool, otherwise: String| {
        if !holds {
            problems.push(otherwise);
        }
    };
    if let Err(error) = config.engine.timing.check() {
        must(false, format!("[jobs], [nodes], [sessions] and [cluster] are inconsistent: {error}"));
    }
    of_tls(config, &mut must);
    of_main(config, &mut must);
    of_limits(config, &mut must);
    of_engine(config, &mut must);
    if let Err(error) = crate::telemetry::check_level(&config.log.level) {
        must(false, format!("log.level: {error}"));
    }
    must(
        config.catalogue.url.is_none() || config.catalogue.file.is_none(),
        "catalogue.url and catalogue.file: at most one of them".to_owned(),
    );
    problems.extend(of_identity(&config.identity));
    problems
}

/// What has to fit together in `[tls]`.
fn of_tls(config: &Config, must: &mut impl FnMut(bool, String)) {
    let Config { main, tls, .. } = config;
    must(
        tls.cert_file.is_some() == tls.key_file.is_some(),
        "tls.cert_file and tls.key_file: both or neither".to_owned(),
    );
    for (set, name) in [
        (tls.node_ca_file.is_some(), "tls.node_ca_file"),
        (tls.peer_ca_file.is_some(), "tls.peer_ca_file"),
    ] {
        must(!set || tls.cert_file.is_some(), format!("{name} needs tls.cert_file"));
    }
    must(
        !tls.require_node_cert || tls.node_ca_file.is_some(),
        "tls.require_node_cert needs tls.node_ca_file".to_owned(),
    );
    must(
        tls.node_crl_file.is_none() || tls.node_ca_file.is_some(),
        "tls.node_crl_file needs tls.node_ca_file".to_owned(),
    );
    must(
        tls.cert_file.is_none() || tls.peer_ca_file.is_some() || !main.is_shared(),
        "tls.cert_file with a store that instances share needs tls.peer_ca_file: instances exchange \
         audio and have to authenticate each other"
            .to_owned(),
    );
}

/// What has to fit together ahead of all sections.
fn of_main(config: &Config, must: &mut impl FnMut(bool, String)) {
    let Config { main, tls, .. } = config;
    if let Some(address) = &main.advertise
        && let Err(why) = advertised(address, tls.cert_file.is_some())
    {
        must(false, why);
    }
    must(
        main.store_file.is_none() || main.store.reveal() == MEMORY,
        "store and store_file: one or the other".to_owned(),
    );
    must(
        main.admin_listen.is_none_or(|admin| admin.port() == 0 || admin != main.listen),
        "admin_listen is the same as listen: leave it empty".to_owned(),
    );
}

/// What has to fit together in `[jobs]`, `[nodes]` and `[sessions]`.
fn of_engine(config: &Config, must: &mut impl FnMut(bool, String)) {
    let Settings { waiting, select, region, breaker, max_audio_bytes, sessions, .. } =
        &config.engine;
    must(
        waiting.per_pair <= waiting.total,
        format!(
            "jobs.waiting_per_pair ({}) is more than jobs.waiting ({})",
            waiting.per_pair, waiting.total
        ),
    );
    must(
        select.rank != RankRule::Region || region.is_some(),
        "jobs.rank = \"region\" needs jobs.region".to_owned(),
    );
    must(
        breaker.first_pause_ms <= breaker.longest_pause_ms,
        "nodes.breaker_first_pause_ms is longer than nodes.breaker_longest_pause_ms".to_owned(),
    );
    // In base64, with the words around it.
    let message = max_audio_bytes / 3 * 4 + (64 << 10);
    must(
        config.limits.session_message_bytes >= message,
        format!(
            "limits.session_message_bytes ({}) is less than an utterance of sessions.max_audio_bytes \
             ({max_audio_bytes}) takes in base64: {message}",
            config.limits.session_message_bytes
        ),
    );
    must(
        sessions.held_bytes >= *max_audio_bytes,
        "sessions.held_bytes is less than one chunk of sessions.max_audio_bytes".to_owned(),
    );
}

/// What does not fit in `[identity]`.
fn of_identity(identity: &Identity) -> Vec<String> {
    let mut problems = Vec::new();
    let mut must = |holds: bool, otherwise: String| {
        if !holds {
            problems.push(otherwise);
        }
    };
    for origin in &identity.origins {
        must(
            Origin::parse(origin).is_some(),
            format!("identity.origins: {origin:?} is not https://host[:port]"),
        );
    }
    for host in &identity.hosts {
        must(
            Host::parse(host).is_some(),
            format!("identity.hosts: {host:?} is not a host, or host:port"),
        );
    }
    must(!identity.issuer.is_empty(), "identity.issuer is empty".to_owned());
    must(!identity.audience.is_empty(), "identity.audience is empty".to_owned());
    for file in &identity.key_files {
        must(kid(file).is_some(), format!("identity.key_files: {} has no name", file.display()));
    }
    let mut names: Vec<_> = identity.key_files.iter().filter_map(|file| kid(file)).collect();
    names.sort();
    names.dedup();
    must(
        names.len() == identity.key_files.len(),
        "identity.key_files: two keys have the same name".to_owned(),
    );
    problems
}

/// What has to fit together in `[limits]`.
fn of_limits(config: &Config, must: &mut impl FnMut(bool, String)) {
    let Config { limits, engine, .. } = config;
    let Settings { sessions, admission, .. } = engine;
    for (part, whole, part_name, whole_name) in [
        (
            limits.connections_per_address,
            limits.connections,
            "connections_per_address",
            "connections",
        ),
        (sessions.per_tenant, sessions.total, "sessions_per_tenant", "sessions"),
        (admission.jobs_per_tenant, admission.jobs, "jobs_per_tenant", "jobs"),
        (
            limits.unfinished_bytes_per_address,
            limits.unfinished_bytes,
            "unfinished_bytes_per_address",
            "unfinished_bytes",
        ),
        (
            limits.unfinished_bytes_per_tenant,
            limits.unfinished_bytes,
            "unfinished_bytes_per_tenant",
            "unfinished_bytes",
        ),
    ] {
        must(
            part <= whole,
            format!("limits.{part_name} ({part}) is more than limits.{whole_name} ({whole})"),
        );
    }
    // One that comes in pieces is put together beside its largest piece.
    for (message, message_name, budget, budget_name) in [
        (
            limits.session_message_bytes,
            "session_message_bytes",
            limits.unfinished_bytes_per_tenant,
            "unfinished_bytes_per_tenant",
        ),
        (
            limits.session_message_bytes.max(limits.node_message_bytes),
            "session_message_bytes or limits.node_message_bytes",
            limits.unfinished_bytes_per_address,
            "unfinished_bytes_per_address",
        ),
    ] {
        must(
            2 * message <= budget,
            format!(
                "limits.{budget_name} ({budget}) is less than twice limits.{message_name} ({message}): a \
                 fragmented message would never fit"
            ),
        );
    }
    must(
        limits.message_timeout_ms <= limits.silence_ms,
        format!(
            "limits.message_timeout_ms ({}) is more than limits.silence_ms ({}): a long \
             message would be closed as silence",
            limits.message_timeout_ms, limits.silence_ms
        ),
    );
}

/// The name of a key: that of its file up to the first dot.
pub(crate) fn kid(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?.split('.').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether other instances can call this: `http://host:port`, or https with a certificate.
fn advertised(address: &str, tls: bool) -> Result<(), String> {
    if tls && !address.starts_with("https://") {
        return Err("advertise has to begin with https:// where tls.cert_file is set".to_owned());
    }
    match is_address(address) {
        true => Ok(()),
        false => Err(format!(
            "advertise: {address:?} is not http://host:port, where others reach this instance"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_other_instances_can_call_is_advertised() {
        for good in
            ["http://10.0.0.1:5010", "http://h", "https://eu-1.example:443", "http://[::1]:5"]
        {
            assert_eq!(advertised(good, false), Ok(()), "{good}");
        }
        for wrong in [
            "foo",
            "foo:5010",
            "http://",
            "ftp://h",
            "http://a b",
            "http://h/path",
            "http://u@h",
            "",
        ] {
            assert!(advertised(wrong, false).is_err(), "{wrong}");
        }
        assert!(advertised("http://h", true).is_err() && advertised("https://h", true).is_ok());
    }
}
