//! When to stop.

use lingua_engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and Ctrl-C, listened to from the moment this is made.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> Self {
        let listen = |kind| signal(kind).expect("the runtime was built with its signal driver");
        Signals {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    /// Resolves on the first signal, with the engine already taking no new work. A second one ends
    /// the process at once.
    pub(crate) async fn stop(mut self, engine: Engine) {
        self.next().await;
        tracing::info!("stopping; a second signal stops at once");
        crate::systemd::stopping();
        engine.drain();
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
