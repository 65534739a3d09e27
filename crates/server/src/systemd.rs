//! What a service manager is told (the protocol of `sd_notify`): ready, alive, stopping. Without
//! `NOTIFY_SOCKET` in the environment nobody is told anything.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Says that work is taken, and from then on that the process lives, twice in every interval that the
/// service manager waits. The task runs on the runtime that accepts connections: a runtime that hangs
/// says nothing, and the process is restarted.
pub(crate) fn ready() {
    let Some(manager) = Manager::of_environment() else { return };
    manager.tell("READY=1");
    let Some(every) = watchdog_interval(
        std::env::var("WATCHDOG_USEC").ok().as_deref(),
        std::env::var("WATCHDOG_PID").ok().as_deref(),
        std::process::id(),
    ) else {
        return;
    };
    lingua_engine::tasks::spawn("the service manager's watchdog", async move {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            manager.tell("WATCHDOG=1");
        }
    });
}

/// Says that the process drains.
pub(crate) fn stopping() {
    if let Some(manager) = Manager::of_environment() {
        manager.tell("STOPPING=1");
    }
}

/// Half of the time after which a silent process is killed; `None` if nobody watches this process.
fn watchdog_interval(usec: Option<&str>, pid: Option<&str>, me: u32) -> Option<Duration> {
    let watched = pid.is_none_or(|pid| pid.parse() == Ok(me));
    let usec: u64 = usec.filter(|_| watched)?.parse().ok().filter(|usec| *usec > 1)?;
    Some(Duration::from_micros(usec / 2))
}

/// The socket of the service manager.
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    fn of_environment() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
        match Manager::at(&name) {
            Ok(manager) => Some(manager),
            Err(error) => {
                tracing::warn!(%error, "the service manager's socket cannot be used");
                None
            }
        }
    }

    /// A path, or with an at sign in front a name in the abstract namespace.
    fn at(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that reads nothing must not hold this process up.
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, address })
    }

    fn tell(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            tracing::debug!(%error, state, "the service manager was not told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_watched_speaks_twice_in_every_interval() {
        let half = Some(Duration::from_secs(15));
        assert_eq!(watchdog_interval(Some("30000000"), None, 7), half);
        assert_eq!(watchdog_interval(Some("30000000"), Some("7"), 7), half);
        for (usec, pid) in [
            (None, None),
            (Some("30000000"), Some("8")),
            (Some("30000000"), Some("x")),
            (Some("0"), None),
            (Some("soon"), None),
        ] {
            assert_eq!(watchdog_interval(usec, pid, 7), None, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn a_manager_is_reached_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("lingua-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (listens, at) in
            [(by_path, path.into_os_string()), (by_name, format!("@{name}").into())]
        {
            Manager::at(&at).unwrap().tell("READY=1");
            let mut heard = [0; 64];
            let length = listens.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1");
        }
    }
}
