//! Waiting for something to come, without missing it.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;

/// What `look` finds, now or within `wait` of real time. It looks again at every piece of `news`;
/// what comes between a look and the waiting is not missed.
pub(super) async fn within<T>(
    wait: Duration,
    news: &Notify,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    // Most calls find something or do not want to wait: neither needs a timer.
    let found = look();
    if found.is_some() || wait.is_zero() {
        return found;
    }
    let search = async {
        loop {
            let mut arrived = pin!(news.notified());
            arrived.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            arrived.await;
        }
    };
    tokio::time::timeout(wait, search).await.ok()
}
