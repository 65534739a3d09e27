//! What goes over the links of this process, for a test that holds it against a description.

use std::sync::OnceLock;

use crate::closed::Closed;

/// Something that happened on a link.
#[derive(Debug, Clone, Copy)]
pub struct Overheard<'a> {
    /// Which link: they are numbered.
    pub link: u64,
    /// The address that it was opened to.
    pub address: &'a str,
    /// The path that it was opened on.
    pub path: &'a str,
    /// What happened.
    pub what: What<'a>,
}

/// What happens on a link.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A text was given to the link, to go to the scheduler.
    Said(&'a str),
    /// Bytes were.
    SaidBytes(&'a [u8]),
    /// A text came from the scheduler.
    Told(&'a str),
    /// Bytes did.
    ToldBytes(&'a [u8]),
    /// It ended; by a close of the scheduler, or by nothing that was seen.
    Ended(Option<&'a Closed>),
}

static LISTENER: OnceLock<fn(&Overheard<'_>)> = OnceLock::new();

/// Has somebody listen to every link from now on. The first to ask is it.
pub fn listen(listener: fn(&Overheard<'_>)) {
    // The same test harness asks once for each of its schedulers.
    let _ = LISTENER.set(listener);
}

/// Whether anybody does.
pub(crate) fn is_on() -> bool {
    LISTENER.get().is_some()
}

pub(crate) fn happened(overheard: &Overheard<'_>) {
    if let Some(listener) = LISTENER.get() {
        listener(overheard);
    }
}
