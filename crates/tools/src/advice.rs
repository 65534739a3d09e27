//! What to do about a refusal.

use lingua_lab::ConnectError;
use lingua_server::client::advice;

/// What to do about a connection that was refused for want of a token, for the end of a sentence.
pub(crate) fn advice_for(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ConnectError>() {
        Some(ConnectError::Refused { code, .. }) => advice(code),
        _ => String::new(),
    }
}
