//! Panics of the tasks of a world: each is a mistake, whatever the engine makes of it.

use std::cell::RefCell;
use std::sync::Once;

/// Panics of one world that are kept.
const MAX_PANICS: usize = 20;

thread_local! {
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Watches this thread until it is dropped.
pub(crate) struct Watched(());

/// Panics of this thread are noted from now on, and not printed.
pub(crate) fn watch() -> Watched {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let noted = SEEN.with_borrow_mut(|seen| {
                let Some(seen) = seen else { return false };
                if seen.len() < MAX_PANICS {
                    seen.push(info.to_string());
                }
                true
            });
            if !noted {
                before(info);
            }
        }));
    });
    SEEN.set(Some(Vec::new()));
    Watched(())
}

impl Watched {
    /// What was noted.
    pub fn end(self) -> Vec<String> {
        SEEN.take().unwrap_or_default()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        SEEN.set(None);
    }
}
