//! The name of one process among those that share a store.

use std::fmt;
use std::str::FromStr;

use lingua_core::InstanceId;

use crate::error::Error;

/// One life of one scheduler process: the operator's name for it, and a number of chance that a
/// restarted or cloned process does not share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Instance {
    /// The operator's name.
    pub id: InstanceId,
    /// This life of it.
    pub boot: u64,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:016x}", self.id, self.boot)
    }
}

impl FromStr for Instance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::corrupt("an instance's name", text);
        let (id, boot) = text.split_once('@').ok_or_else(wrong)?;
        let boot = u64::from_str_radix(boot, 16).map_err(|_| wrong())?;
        Ok(Instance { id: id.parse().map_err(|_| wrong())?, boot })
    }
}
