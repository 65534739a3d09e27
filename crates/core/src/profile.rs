//! How a person's jobs are treated: patiently, or quickly.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of figures by which jobs are decided. What is promised is the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Nothing is given up early, and a retry waits for a moment.
    #[default]
    Stable,
    /// Late is as bad as never: more nodes are compared, and a slow job gets a second copy.
    Fast,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 2] = [Profile::Stable, Profile::Fast];

    /// The word on the wire and in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Stable => "stable",
            Profile::Fast => "fast",
        }
    }

    /// The profile that `word` names.
    pub fn parse(word: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.as_str() == word)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
