//! The service of deploy/lingua.service: what it may write to, and what the service manager is told.

use crate::process;

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use process::Lingua;

fn unit() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/lingua.service");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_service_manager_hears_ready_then_signs_of_life_then_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut heard = [0; 64];
        let length = manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    let set = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let (mut lingua, _log) = Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], &set);
    assert_eq!(hear(), "READY=1");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    lingua.signal("TERM");
    let last = std::iter::repeat_with(hear).find(|said| said != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert_eq!(lingua.exit_code(), Some(0));
}

#[test]
fn without_a_service_manager_nothing_is_missed() {
    let (mut lingua, log) = Lingua::logged(
        &["serve", "--listen", "127.0.0.1:0"],
        &[("NOTIFY_SOCKET", "/nowhere/at/all")],
    );
    lingua.signal("TERM");
    assert_eq!(lingua.exit_code(), Some(0), "{}", log.all());
}

/// The user of the unit is made for each start and owns nothing but these.
#[test]
fn the_unit_gives_the_scheduler_directories_to_write_to() {
    let unit = unit();
    for line in ["Type=notify", "WatchdogSec=30", "StateDirectory=lingua", "LogsDirectory=lingua"] {
        assert!(unit.lines().any(|has| has == line), "{line}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/lingua.env");
    let settings = std::fs::read_to_string(path).unwrap();
    let audit = settings.lines().find_map(|line| line.split_once("LINGUA_AUDIT_FILE="));
    assert!(audit.is_some_and(|(_, file)| file.starts_with("/var/log/lingua/")), "{audit:?}");
}
