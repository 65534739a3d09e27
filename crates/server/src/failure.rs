//! How a command ends badly: one sentence and an exit code.

use std::process::ExitCode;

use lingua_store::OpenError;

use crate::out::remark;
use crate::telemetry::LogFormat;

/// Why a command ended badly: one sentence and an exit code.
#[derive(Debug)]
pub struct Failure {
    sentence: String,
    code: u8,
}

impl Failure {
    /// The checked thing failed.
    pub fn failed(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 1 }
    }

    /// The command line asks for what cannot be.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 2 }
    }

    /// The settings are refused.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 78 }
    }

    pub(crate) fn report(self, format: LogFormat) -> ExitCode {
        match format {
            LogFormat::Human => remark!("lingua: {}", self.sentence),
            LogFormat::Json => tracing::error!(exit_code = self.code, "{}", self.sentence),
        }
        ExitCode::from(self.code)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure { sentence: error.to_string(), code: error.exit_code() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::failed(format!("{error:#}"))
    }
}
