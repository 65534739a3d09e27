//! SIGHUP: the configuration is read again, and what may change does.
//!
//! A configuration that is refused changes nothing: the scheduler goes on with what it has, and says
//! why. Files that the configuration names are read again too, also if their names are the same.

use std::sync::Arc;

use lingua_engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::audit::Audit;
use crate::config::{Asked, Config, changes};
use crate::identity::{Authenticator, Rules};
use crate::telemetry;
use crate::tls::{Material, Tls, now_s};

/// What follows the configuration while the scheduler runs.
pub(crate) struct Reload {
    pub(crate) asked: Asked,
    pub(crate) config: Config,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) engine: Engine,
}

impl Reload {
    /// Listens from now on, until the process ends.
    pub(crate) fn listen(self) {
        let hangups = signal(SignalKind::hangup());
        let hangups = hangups.expect("the runtime was built with its signal driver");
        lingua_engine::tasks::spawn("SIGHUP", self.follow(hangups));
    }

    async fn follow(mut self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            let read = self.again();
            self.audit.reopen();
            let outcome = if read.is_ok() { "ok" } else { "refused" };
            self.audit.process("config.reload", "SIGHUP", outcome);
            if let Err(why) = read {
                tracing::error!("nothing is changed: {why}");
            }
        }
    }

    /// What is in the files of TLS, if it may take the place of what was in them.
    fn material(&self, config: &Config) -> Result<Option<Material>, String> {
        let material = Material::read(config)?;
        if self.tls.is_some() != material.is_some() {
            return Err("turning TLS on or off takes a restart".to_owned());
        }
        // Worse than the one that is there.
        match material.as_ref().and_then(|material| material.is_out_of_date(now_s())) {
            Some(why) => Err(why),
            None => Ok(material),
        }
    }

    fn again(&mut self) -> Result<(), String> {
        let loaded = self.asked.load(std::env::vars()).map_err(|problems| problems.to_string())?;
        let rules = Rules::read(&loaded.config)?;
        if self.authenticator.is_open() != rules.keys.is_empty() {
            return Err("turning authentication on or off takes a restart".to_owned());
        }
        telemetry::set_level(&loaded.config.log.level)?;
        let material = self.material(&loaded.config)?;
        crate::permissions::warn_of_open_files(&loaded.config);
        let keys = rules.keys.names().join(", ");
        self.authenticator.replace(rules, self.engine.now_ms() / 1_000);
        if let (Some(tls), Some(material)) = (&self.tls, material) {
            if let Some(change) = tls.replace(material) {
                tracing::info!(change, "another certificate");
            }
            tls.now().warn_of_the_end(now_s());
            self.authenticator.dismiss_expired(self.engine.now_ms() / 1_000);
        }
        let changes = changes(&self.config, &loaded.config);
        for change in &changes.now {
            tracing::info!(change, "changed");
        }
        for change in &changes.after_a_restart {
            tracing::warn!(
                change,
                "changed in the configuration, and takes effect after a restart"
            );
        }
        tracing::info!(changes = changes.now.len(), keys, "the configuration was read again");
        self.config = loaded.config;
        Ok(())
    }
}
