//! `lingua config`: prints the configuration and checks it.

use crate::cli::ConfigPart;
use crate::config::{effective, sample};
use crate::failure::Failure;
use crate::out::say;
use crate::tls::Material;

/// Runs the command.
pub(crate) fn run(what: &ConfigPart) -> Result<(), Failure> {
    match what {
        ConfigPart::Default => say!("{}", sample().trim_end()),
        ConfigPart::Show(flags) => {
            let loaded = flags.asked().load(std::env::vars())?;
            say!("{}", effective(&loaded.config, &loaded.origins).trim_end());
        }
        ConfigPart::Check(flags) => {
            let loaded = flags.asked().load(std::env::vars())?;
            for stranger in &loaded.strangers {
                say!("{stranger}");
            }
            // Before a scheduler is told to read them again.
            Material::read(&loaded.config).map_err(Failure::refused)?;
            let timing = loaded.config.engine.timing;
            say!(
                "the configuration is fine: a job may take {} ms of its {} ms ({})",
                timing.budget().total_ms(),
                timing.deadline_ms,
                timing.budget()
            );
        }
    }
    Ok(())
}
