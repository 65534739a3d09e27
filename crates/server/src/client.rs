//! What programs that call a scheduler have in common: addresses, whom to believe, tokens to show, how
//! numbers are written.

pub use crate::cli::{Authority, address, duration, ms, seconds, share, socket_url};
pub use crate::human::{ago, arrow, count, number, plural, span};
pub use crate::runtime::runtime;
pub use crate::tls::{Connector, Trust, whole};
pub use crate::token::{Tokens, advice, token_of_environment, tokens_of_environment};
