//! The key that the instances of one store share: from a file, or made where nobody needs to share it.
//!
//! With the embedded store there is one instance, and its key lives as long as it does, or lies in the directory in
//! which that store is kept. Instances over a
//! Redis on this machine find one in the user's state directory, which the first of them makes. Beyond
//! this machine somebody has to bring the key there, so it has to be named.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lingua_engine::chance::Chance;
use lingua_engine::secret::Secret;

use crate::config::Config;

/// What makes a key file.
const MAKE: &str = "(umask 077; openssl rand -hex 32 > cluster.key)";

/// The file in a state directory.
const NAME: &str = "cluster.key";

/// Where a key comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// It is made and lives as long as the process.
    Process,
    /// This file, which has to be there.
    File(PathBuf),
    /// This file, which is made if it is not there.
    Made(PathBuf),
}

/// Where the store is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    /// In this process.
    Embedded,
    /// In this process, and kept in this directory.
    Kept(PathBuf),
    /// On this machine.
    Here,
    /// Elsewhere, as people call it.
    Beyond(String),
}

/// The secret of the instances of this store; an error is one sentence.
pub(crate) fn read(config: &Config, store: &Store, chance: Chance) -> Result<Secret, String> {
    let file = config.cluster.key_file.as_deref();
    let secret = match source(file, store, |name| std::env::var_os(name))? {
        Source::Process => return Ok(Secret::random(chance)),
        Source::File(file) => from_file(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                format!("cluster.key_file: there is no {}; make one with {MAKE}", file.display())
            }
            _ => format!("cluster.key_file: {}: {error}", file.display()),
        }),
        Source::Made(file) => {
            make(&file, chance).and_then(|()| from_file(&file)).map_err(|error| {
                let file = file.display();
                format!("cluster.key_file is not set, and {file} cannot be used instead: {error}")
            })
        }
    }?;
    if secret.takes_unsigned() {
        tracing::warn!(
            "the first key of cluster.key_file is the one from the store: it is for an upgrade alone, \
             put a new one in front of it"
        );
    }
    Ok(secret)
}

fn source(
    file: Option<&Path>,
    store: &Store,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Source, String> {
    if let Some(file) = file {
        return Ok(Source::File(file.to_owned()));
    }
    match (store, state_directory(environment)) {
        (Store::Embedded, _) => Ok(Source::Process),
        (Store::Kept(directory), _) => Ok(Source::Made(directory.join(NAME))),
        (Store::Here, Some(directory)) => Ok(Source::Made(directory.join(NAME))),
        (Store::Here, None) => Err(format!(
            "cluster.key_file is not set, and this user has no state directory: make a key with {MAKE}"
        )),
        (Store::Beyond(target), _) => Err(format!(
            "the store at {target} may have several instances, and cluster.key_file is not set: make a \
             key with {MAKE} and give it to each of them"
        )),
    }
}

/// Where a user's programs keep what they know: systemd's word, else the desktop's, else the usual place.
fn state_directory(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("STATE_DIRECTORY")
        .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("lingua")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/lingua")))
}

fn from_file(file: &Path) -> io::Result<Secret> {
    Secret::read(&fs::read_to_string(file)?).map_err(io::Error::other)
}

/// Makes the file unless it is there. Of several that do so at once one makes it.
fn make(file: &Path, chance: Chance) -> io::Result<()> {
    if file.try_exists()? {
        return Ok(());
    }
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // Whole or not at all: another instance may read it in this moment.
    let draft = directory.join(format!(".{NAME}.{:016x}", chance.bits()));
    let made = write(&draft, &Secret::new_file(chance)).and_then(|()| fs::hard_link(&draft, file));
    let _ = fs::remove_file(&draft);
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn home(name: &str) -> Option<OsString> {
        (name == "HOME").then(|| "/home/ann".into())
    }

    #[test]
    fn a_key_is_made_where_one_machine_is_enough_and_asked_for_elsewhere() {
        let key = Path::new("/etc/lingua/cluster.key");
        let beyond = Store::Beyond("redis://10.0.0.1/0".to_owned());
        for store in [&Store::Embedded, &Store::Here, &beyond] {
            assert_eq!(source(Some(key), store, home), Ok(Source::File(key.to_owned())));
        }
        assert_eq!(source(None, &Store::Embedded, |_| None), Ok(Source::Process));
        let kept = Store::Kept("/var/lib/lingua".into());
        let beside = Source::Made("/var/lib/lingua/cluster.key".into());
        assert_eq!(source(None, &kept, home), Ok(beside));
        let made = Source::Made("/home/ann/.local/state/lingua/cluster.key".into());
        assert_eq!(source(None, &Store::Here, home), Ok(made));
        let error = source(None, &beyond, home).unwrap_err();
        assert!(error.contains("cluster.key_file is not set"), "{error}");
        let error = source(None, &Store::Here, |_| None).unwrap_err();
        assert!(error.contains("state directory"), "{error}");
    }

    #[test]
    fn the_state_directory_is_the_services_or_the_users() {
        let all = |name: &str| Some(OsString::from(format!("/{name}")));
        assert_eq!(state_directory(all), Some("/STATE_DIRECTORY".into()));
        let user = |name: &str| if name == "STATE_DIRECTORY" { None } else { all(name) };
        assert_eq!(state_directory(user), Some("/XDG_STATE_HOME/lingua".into()));
        let relative = |name: &str| (name == "XDG_STATE_HOME").then(|| "here".into());
        assert_eq!(state_directory(relative), None);
    }

    #[test]
    fn of_many_that_make_the_file_at_once_all_have_the_same_key_and_nobody_else_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/lingua").join(NAME);
        let start = std::sync::Barrier::new(8);
        let prints: Vec<String> = std::thread::scope(|scope| {
            let one = || {
                start.wait();
                make(&file, Chance::system()).unwrap();
                from_file(&file).unwrap().fingerprint().to_owned()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(prints.iter().all(|print| *print == prints[0]), "{prints:?}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let parent = file.parent().unwrap();
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(fs::read_dir(parent).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_file_that_is_not_there_or_has_no_key_is_one_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("k");
        let mut config = Config::preset(crate::config::Profile::Stable);
        config.cluster.key_file = Some(file.clone());
        let refused = || read(&config, &Store::Here, Chance::system()).unwrap_err();
        assert!(refused().contains("openssl rand -hex 32"), "{}", refused());
        for wrong in ["", "secret-but-no-key", "0123"] {
            fs::write(&file, wrong).unwrap();
            assert!(refused().starts_with("cluster.key_file: /"), "{}", refused());
            assert!(wrong.is_empty() || !refused().contains(wrong), "{}", refused());
        }
        fs::write(&file, Secret::new_file(Chance::system())).unwrap();
        assert!(read(&config, &Store::Here, Chance::system()).is_ok());
    }
}
