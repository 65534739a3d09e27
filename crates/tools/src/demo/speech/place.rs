//! Where the speech node's program is.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::Failure;

/// From the top of the source tree.
const EXAMPLE: &str = "clients/python/examples/speech_node";

/// The directory of the speech node, checked.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    /// The directory that was given, or the one of the source tree that we are in or come from.
    pub fn find(given: Option<&Path>) -> Result<Self, Failure> {
        for (program, package) in [("espeak-ng", "espeak-ng"), ("bash", "bash")] {
            if !is_installed(program) {
                return Err(Failure::failed(format!(
                    "{program} is not installed, and the demonstration speaks with it: sudo apt-get \
                     install --no-install-recommends {package}"
                )));
            }
        }
        if let Some(given) = given {
            return Self::checked(given).ok_or_else(|| {
                Failure::usage(format!(
                    "{} is not a speech node: there is no setup.sh and run.sh in it",
                    given.display()
                ))
            });
        }
        let starts = [env::current_dir(), env::current_exe()];
        let above = starts.iter().flatten().flat_map(|start| start.ancestors());
        above.map(|top| top.join(EXAMPLE)).find_map(|place| Self::checked(&place)).ok_or_else(|| {
            Failure::failed(format!(
                "the speech node is a part of the source tree and not of this program: run it within a \
                 clone, or say where {EXAMPLE} is with --speech-node DIR"
            ))
        })
    }

    fn checked(directory: &Path) -> Option<Self> {
        let has = |name: &str| directory.join(name).is_file();
        let place = directory.canonicalize().ok()?;
        (has("setup.sh") && has("run.sh")).then_some(Place(place))
    }

    pub fn script(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Whether a program is on the path.
pub(super) fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_this_source_tree_is_found_and_another_directory_is_refused() {
        let found = Place::find(None).map_err(|_| ()).unwrap();
        assert!(found.script("setup.sh").ends_with(format!("{EXAMPLE}/setup.sh")));
        assert!(Place::find(Some(Path::new("/"))).is_err());
        assert!(Place::find(Some(Path::new("/no/such/place"))).is_err());
        let given = found.script("");
        assert!(Place::find(Some(&given)).is_ok());
    }
}
