//! Tokens that came with a request, and tokens of another role than is asked for.

use std::sync::Arc;

use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;

use super::Role;

/// A token that came in a header.
#[derive(Clone)]
pub(crate) struct BearerToken(pub(crate) Option<Arc<str>>);

/// A good token of a role that may not do this.
pub(crate) fn other_role(wanted: &[Role], shown: Role) -> Refusal {
    let (wanted, shown) = (listed(wanted), shown.as_str());
    let detail =
        format!("this is for tokens of the role {wanted}; the role of this one is {shown}");
    Refusal::new(Code::Forbidden, detail).because("other_role")
}

/// Roles in a sentence: `session, admin or viewer`.
pub(crate) fn listed(roles: &[Role]) -> String {
    let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
