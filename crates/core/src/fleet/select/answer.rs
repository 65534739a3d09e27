//! What choosing says.

use crate::eligibility::WhyNots;
use crate::fleet::ProfileVersion;
use crate::ids::NodeId;

/// A node to ask for a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Which node.
    pub node: NodeId,
    /// The profile on which it was found eligible; a grant holds only on this one.
    pub version: ProfileVersion,
    /// How it came to be chosen.
    pub source: Source,
}

/// How a candidate came to be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The caller named it.
    Preferred,
    /// It has the earlier parts of the utterance.
    Turn,
    /// Best of the sample that are left.
    Sample,
    /// Beyond the sample, with a free slot.
    Rest,
    /// Better spared or a last resort, and nothing else was free.
    Spared,
    /// Full as far as this instance knows.
    Full,
    /// A slot of it came free while the job was in line, and was handed to it.
    Handed,
}

impl Source {
    /// A stable word for metrics, logs and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Preferred => "preferred",
            Source::Turn => "turn",
            Source::Sample => "sample",
            Source::Rest => "rest",
            Source::Spared => "spared",
            Source::Full => "full",
            Source::Handed => "handed",
        }
    }
}

/// Why a node that was asked for by name is no candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    /// No such node.
    Unknown,
    /// It failed this job before.
    Excluded,
    /// It may not take the job, for these reasons.
    NotEligible(WhyNots),
}

/// What it means that there is no further candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No node may take the job: `NO_CAPABLE_NODE`, now.
    NoneEligible,
    /// Nodes may take it and have no slot: the job waits in line.
    Busy,
    /// Every node that may take it has failed it: the job ends with its last failure.
    OnlyFailed,
    /// The one node wanted may not take it.
    PreferredNotCapable(Passed),
    /// The one node wanted has no slot.
    PreferredBusy,
}
