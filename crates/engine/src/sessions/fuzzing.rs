//! A session as its last owner left it, as a target for `fuzz/`.

use lingua_core::eligibility::Route;
use lingua_core::session::{Routes, Session, Settings};
use lingua_core::{Lang, Moment};

use super::saved_state::{Clocks, read, write};

/// What is read is written in a form that is read the same, and a session goes on from it.
pub(crate) fn saved_session(data: &[u8]) {
    let en = Lang::new("en").expect("a language");
    let routes = Routes::one(Route::Directed(en, en));
    let now = Moment::from_millis(1_000_000);
    let clocks = Clocks { own: now, date: now };
    let Some(left) = read(data, routes.clone(), clocks) else { return };
    let once = write(&left.state, left.former, &left.trace, &left.jobs, clocks);
    let again = read(&once, routes, clocks).expect("what was written is read");
    assert_eq!((&again.state, again.former, &again.jobs), (&left.state, left.former, &left.jobs));
    let epoch = left.state.epoch.saturating_add(1);
    let restored = Session::<()>::restore(Settings::default(), left.state, epoch, [7; 16], now);
    let (session, _) = restored.expect("the settings are right");
    assert!(session.saved().client_indices.len() <= data.len());
}
