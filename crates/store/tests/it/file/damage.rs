//! Files that are not as they were written, directories of somebody else, and who comes second.

use std::collections::BTreeMap;
use std::path::Path;

use lingua_store::{Clock, OpenError};

use super::*;

/// Every file of a directory, but the lock.
fn files(directory: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(directory)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name != "lock" {
            files.insert(name, std::fs::read(file.path())?);
        }
    }
    Ok(files)
}

/// Opening is refused with this exit code, in one sentence, and changes nothing.
fn refused(directory: &TempDir, clock: &Clock, code: u8) -> anyhow::Result<String> {
    let before = files(directory.path())?;
    let error = reopen(directory, clock).expect_err("it is refused");
    assert_eq!(error.exit_code(), code, "{error}");
    assert!(files(directory.path())? == before, "a file was changed");
    let told = error.to_string();
    assert!(!told.contains('\n'), "{told}");
    Ok(told)
}

fn cut(directory: &TempDir, name: &str) -> Outcome {
    let path = directory.path().join(name);
    let half = std::fs::metadata(&path)?.len() / 2;
    std::fs::OpenOptions::new().write(true).open(path)?.set_len(half)?;
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_cut_in_half_is_told_of_and_nothing_is_overwritten() -> Outcome {
    let store = file().await?;
    Kept::write(&store.backend, "one").await?;
    settle(&store).await?;
    Kept::write(&store.backend, "two").await?;
    let clock = store.clock.clone();
    let directory = store.stopped().await;
    let log = files(directory.path())?.into_keys().find(|name| name.starts_with("log."));
    for name in [log.as_deref().expect("there is a log"), "base.redb", "state"] {
        let copy = tempfile::tempdir()?;
        for (name, bytes) in files(directory.path())? {
            std::fs::write(copy.path().join(name), bytes)?;
        }
        cut(&copy, name)?;
        if name == "state" {
            // What is left of it is spaces behind the line, or half a line.
            std::fs::write(copy.path().join(name), "{\"format\":\"lingua st")?;
        }
        let told = refused(&copy, &clock, 78)?;
        assert!(told.contains(name), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_log_that_a_kill_left_and_that_was_cut_since_is_told_of() -> Outcome {
    let store = file().await?;
    for word in ["one", "two", "three"] {
        Kept::write(&store.backend, word).await?;
    }
    // The state says now and then how far everything is.
    let state = store.directory.path().join("state");
    let written = || std::fs::read_to_string(&state).map(|text| !text.contains("\"number\":0,"));
    while !written()? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = store.killed()?;
    cut(&left, "log.0000000001")?;
    let told = refused(&left, &store.clock, 78)?;
    assert!(told.contains("were written"), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_step_that_a_kill_cut_short_was_never_answered_and_is_left_out() -> Outcome {
    let store = file().await?;
    let kept = Kept::write(&store.backend, "one").await?;
    let left = store.killed()?;
    let log = left.path().join("log.0000000001");
    let mut bytes = std::fs::read(&log)?;
    bytes.extend([200, 0, 0, 0, 1, 2, 3, 4, 5]);
    std::fs::write(&log, bytes)?;
    let backend = reopen(&left, &store.clock)?;
    kept.check(&backend).await?;
    drop(backend);
    kept.check(&reopen(&left, &store.clock)?).await
}

#[tokio::test]
async fn a_missing_database_or_log_is_told_of() -> Outcome {
    let store = file().await?;
    settle(&store).await?;
    Kept::write(&store.backend, "one").await?;
    let clock = store.clock.clone();
    let directory = store.stopped().await;
    let all: Vec<String> =
        files(directory.path())?.into_keys().filter(|it| it != "state").collect();
    assert!(all.len() >= 2, "{all:?}");
    for missing in &all {
        let copy = tempfile::tempdir()?;
        for (name, bytes) in files(directory.path())? {
            if name != *missing {
                std::fs::write(copy.path().join(name), bytes)?;
            }
        }
        refused(&copy, &clock, 78)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_of_somebody_else_is_left_alone() -> Outcome {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("thesis.tex"), "\\chapter{One}")?;
    let told = refused(&directory, &Clock::manual(), 78)?;
    assert!(told.contains("thesis.tex"), "{told}");
    assert_eq!(files(directory.path())?.len(), 1);
    for (name, wrong) in
        [("state", "mine"), ("base.redb", "not a database"), ("log.0000000001", "dear diary")]
    {
        let store = file().await?;
        settle(&store).await?;
        let (clock, directory) = (store.clock.clone(), store.stopped().await);
        std::fs::write(directory.path().join(name), wrong)?;
        let told = refused(&directory, &clock, 78)?;
        assert!(told.contains(name), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_newer_schema_is_refused() -> Outcome {
    let store = file().await?;
    let (clock, directory) = (store.clock.clone(), store.stopped().await);
    let path = directory.path().join("state");
    let newer = std::fs::read_to_string(&path)?.replace("\"schema\":1", "\"schema\":2");
    std::fs::write(path, newer)?;
    let told = refused(&directory, &clock, 78)?;
    assert!(told.contains("schema 2"), "{told}");
    Ok(())
}

#[tokio::test]
async fn the_second_process_is_told_who_has_the_directory() -> Outcome {
    let store = file().await?;
    let error = reopen(&store.directory, &store.clock).expect_err("one at a time");
    assert!(matches!(error, OpenError::InUse { .. }));
    assert_eq!(error.exit_code(), 69);
    let me = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&me), "{error}");
    // When the first is gone, whatever it left in the lock does not count.
    let (clock, directory) = (store.clock.clone(), store.stopped().await);
    reopen(&directory, &clock)?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_directory_is_one_sentence() -> Outcome {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    std::fs::write(&file, "x")?;
    for path in [file.clone(), file.join("below")] {
        let error = MemoryStore::open_in(&path, Clock::manual()).expect_err("not a directory");
        assert!(matches!(error, OpenError::Unusable { .. }), "{error}");
        assert_eq!(error.exit_code(), 69, "{error}");
    }
    Ok(())
}

/// The directory was written by the first version with this schema: `Kept::write` under the word `one`, on a clock by
/// hand, then [`settle`], `Kept::write` under the word `two`, and a stop. It is kept as it was.
#[tokio::test]
async fn a_directory_of_schema_1_is_read() -> Outcome {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/file/schema_1");
    let copy = tempfile::tempdir()?;
    for (name, bytes) in files(&source)? {
        std::fs::write(copy.path().join(name), bytes)?;
    }
    let backend = reopen(&copy, &Clock::manual())?;
    Kept::named("one")?.without_inventory().check(&backend).await?;
    Kept::named("two")?.without_inventory().later(Duration::from_secs(31)).check(&backend).await
}
