//! The one way to start a task.

mod host;
mod turns;

use std::future::Future;

use tokio::task::JoinHandle;

pub use host::Host;
pub use turns::Turns;

/// Starts a task under a name. A panic inside it is logged with the name and ends nothing else;
/// whoever awaits the handle learns of it.
pub fn spawn<F>(name: &'static str, work: F) -> JoinHandle<Option<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let inner = host::spawn(work);
    // Aborting the outer handle must end the work too, not merely stop watching it.
    let guard = AbortOnDrop(inner.abort_handle());
    host::spawn(async move {
        let outcome = inner.await;
        drop(guard);
        match outcome {
            Ok(output) => Some(output),
            Err(error) if error.is_panic() => {
                tracing::error!(task = name, %error, "a task panicked");
                None
            }
            Err(_) => None,
        }
    })
}

/// Starts a task of which there are very many and whose end nobody awaits. A panic inside it ends
/// it alone, and the process's panic hook reports it.
pub fn start(work: impl Future<Output = ()> + Send + 'static) {
    host::spawn(work);
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_one_task_and_is_told_to_its_owner() {
        assert_eq!(spawn("fine", async { 1 }).await.unwrap(), Some(1));
        assert_eq!(spawn("broken", async { panic!("on purpose") }).await.unwrap(), None::<()>);
    }

    #[tokio::test]
    async fn aborting_the_handle_ends_the_work() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let handle = spawn("endless", async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        handle.abort();
        assert!(receiver.await.is_err(), "the work's own values were dropped");
    }
}
