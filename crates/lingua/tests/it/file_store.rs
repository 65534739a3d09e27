//! `--store file:DIR` as a process meets it: what it refuses, and a disk that is full.

use crate::process::{Lingua, get, lingua, wait_for};

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn serve(store: &str) -> [&str; 5] {
    ["serve", "--listen", "127.0.0.1:0", "--store", store]
}

fn url(directory: &Path) -> String {
    format!("file:{}", directory.display())
}

/// The exit code and the one sentence of a start that is refused.
fn refused(store: &str) -> (Option<i32>, String) {
    let (code, said) = lingua(&serve(store));
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(lines.len(), 1, "{said}");
    (code, said)
}

#[test]
fn a_second_process_and_a_damaged_directory_are_refused_and_a_key_is_made_beside_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("new");
    let first = Lingua::start(&serve(&url(&store)));
    assert!(first.greeting()[1].contains("embedded (file "), "{:?}", first.greeting());
    let private = std::fs::metadata(&store).unwrap().permissions().mode() & 0o077;
    assert_eq!((private, store.join("cluster.key").exists()), (0, true));
    let (code, said) = refused(&url(&store));
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains(&format!("in use by process {}", first.pid())), "{said}");
    let mut first = first;
    first.signal("TERM");
    assert_eq!(first.exit_code(), Some(0));
    let log = store.join("log.0000000001");
    let length = std::fs::metadata(&log).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(length / 2).unwrap();
    let (code, said) = refused(&url(&store));
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("log.0000000001 is damaged"), "{said}");
    std::fs::write(store.join("thesis.tex"), "x").unwrap();
    std::fs::remove_file(store.join("state")).unwrap();
    let (code, said) = refused(&url(&store));
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("is not a store"), "{said}");
}

/// The superuser may write everywhere: then it is tried as nobody.
#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o555)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(serve(&url(directory.path()))).current_dir("/");
    if std::fs::File::create(directory.path().join("superuser")).is_ok() {
        std::fs::remove_file(directory.path().join("superuser")).unwrap();
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("cannot be used: Permission denied"), "{said}");
}

#[test]
fn a_full_disk_refuses_work_until_there_is_room_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Lingua::start_with_little_room(&serve(&url(directory.path())));
    let ready = || get(server.address(), "/ready");
    wait_for("503 when nothing more can be written", || ready().0 == 503);
    assert_eq!(ready().1["error"], "SCHEDULER_DEPENDENCY_DOWN");
    assert_eq!(get(server.address(), "/health").0, 200);
    let pid = server.pid().to_string();
    let room = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
    assert!(room.unwrap().success());
    wait_for("200 when there is room", || ready().0 == 200);
    let mut server = server;
    server.signal("KILL");
    assert_eq!(server.exit_code(), None);
    let again = Lingua::start(&serve(&url(directory.path())));
    assert_eq!(get(again.address(), "/ready").0, 200, "what was written is whole");
}
