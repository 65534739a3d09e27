//! Flaws that were mended, each behind a switch, so that tests can show that they would be found again.
//!
//! The old behaviour stands in one line at the place of the mend, behind [`on`]. Without the cargo feature
//! `planted` that is a constant `false`, and the compiler removes the line: no program that is handed out has
//! such code. With it a flaw is on only while a `Planted` of it lives on the same thread. Machines, the embedded
//! store and the engine ask there, so whatever plants flaws has to run all of them on one thread.

#[cfg(feature = "planted")]
use std::cell::Cell;
#[cfg(feature = "planted")]
use std::fmt;

/// Whether a flaw is planted on this thread.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn on(_: Flaw) -> bool {
    false
}

/// Whether a flaw is planted on this thread.
#[cfg(feature = "planted")]
#[inline]
pub fn on(flaw: Flaw) -> bool {
    SET.get() & flaw.bit() != 0
}

#[cfg(feature = "planted")]
thread_local! {
    static SET: Cell<u128> = const { Cell::new(0) };
}

/// Flaws that are on, on this thread, until it is dropped.
#[cfg(feature = "planted")]
#[must_use]
pub struct Planted {
    before: u128,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Plants these beside what is planted already.
    pub fn new(flaws: impl IntoIterator<Item = Flaw>) -> Self {
        let before = SET.get();
        SET.set(flaws.into_iter().fold(before, |set, flaw| set | flaw.bit()));
        Planted { before }
    }
}

#[cfg(feature = "planted")]
impl Drop for Planted {
    fn drop(&mut self) {
        SET.set(self.before);
    }
}

macro_rules! flaws {
    ($($(#[doc = $what:literal])+ $name:ident = $origin:literal,)+) => {
        /// A flaw that was mended. Its text says what the program did before.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Flaw {
            $($(#[doc = $what])+ $name,)+
        }

        #[cfg(feature = "planted")]
        impl Flaw {
            /// All of them.
            pub const ALL: &[Flaw] = &[$(Flaw::$name),+];

            /// What the program did before, in a sentence.
            pub fn what(self) -> &'static str {
                match self {
                    $(Flaw::$name => concat!($($what),+).trim_ascii_start(),)+
                }
            }

            /// Where it was found: the number in the design papers, C1 to C12 and S1 to S14 of the running
            /// system, or the commit that mended a race.
            pub fn origin(self) -> &'static str {
                match self {
                    $(Flaw::$name => $origin,)+
                }
            }
        }
    };
}

flaws! {
    // Leases.
    /// A lease that nobody renews takes its slot for ever.
    LeaseNeverLapses = "flaw 1",
    /// A late ack takes a slot although all are taken.
    LateAckTakesSlot = "flaw 3",
    /// A release of a token that holds nothing frees somebody else's slot.
    ReleaseFreesAnother = "flaws 4, 14",
    /// Spent tokens are not remembered: a reservation that arrives after its release gets a slot.
    SpentTokenForgotten = "flaw 10",
    /// The same reservation, repeated after a lost answer, takes a second slot.
    RepeatTakesSecondSlot = "flaw 10",
    /// A report of the node takes the slot of a job whose ack overtook it.
    ReportDropsNewer = "a4ec719",
    /// A node that names unknown jobs gets slots for them, also if the store lost nothing.
    UnknownJobsGetSlots = "flaws 51, 66",

    // The machine of a job.
    /// What a node says counts for the current attempt, whichever attempt it is about.
    AttemptNotFenced = "flaws 13, 20",
    /// A second dispatch has the number of the first.
    AttemptNumberReused = "flaw 12",
    /// A retry may go to the node that just failed.
    FailedNodeChosenAgain = "flaw 26",
    /// The slot of a node that cannot be told to stop is given back while the node works on.
    AbandonedSlotReleased = "flaw 3, 4d3d890",
    /// A second copy begins without asking the retry budget.
    HedgeWithoutBudget = "flaws 28, 87",
    /// Every retry has a new deadline.
    DeadlineOfEachTry = "flaws 27, 93",
    /// An answer before its ack is not taken.
    AnswerBeforeAckIgnored = "flaw 5",
    /// The slot of an attempt that could not be put on its node is kept.
    UnsentSlotKept = "flaw 24, e25a3aa",
    /// A slot that was being asked for when its job ended is kept.
    AskedSlotKept = "flaw 24",
    /// A second answer is taken while the store is told the first.
    SecondAnswerTaken = "flaws 21, 87",

    // The machine of a node.
    /// An older connection of a node changes what belongs to the newest.
    OlderConnectionHeard = "flaws 34, 78",
    /// A word about a job counts whichever attempt and token it names.
    WordNotFenced = "flaws 12, 34, 91",
    /// A node gets what the store grants, also above what it has room for.
    RoomNotChecked = "d133a53",
    /// The slot of an attempt can be given back more than once.
    SlotReleasedTwice = "flaw 4",
    /// A registration forgets the attempts that the node has.
    RegistrationForgetsAttempts = "flaw 7",
    /// A node that comes back is not given time to bring the results that it made while it was away.
    LastWordsNotAwaited = "f316edb",
    /// A node that comes from another instance gets jobs before it has said what it runs.
    NewcomerNotReconciled = "832bf68",
    /// A report that is older than a job takes the job from the node.
    OlderReportObeyed = "a4ec719",
    /// A result that comes before its instance has asked for it is dropped.
    EarlyResultDropped = "C7",
    /// A node may name any number of unknown jobs, each of which is looked up.
    LookupsUnlimited = "C12",
    /// A node of which nobody knows is taken for new, whatever it runs.
    TrustedBecauseUnknown = "C6",

    // The machine of a session.
    /// The index of an utterance that failed is used again.
    IndexReused = "flaw 82",
    /// An instance that takes a session over begins with index 0.
    TakeoverBeginsAtZero = "flaw 83",
    /// A request to finalise while the utterance before is dispatched is dropped, with what was said.
    FinaliseDropped = "flaw 81",
    /// A pause timer of an earlier generation cuts what is being said.
    StalePauseTimerCuts = "flaw 89",
    /// The end of an earlier connection takes the session from the present one.
    OlderDisconnectHeard = "flaw 78",
    /// Speech is acknowledged when it is received, before any node has it.
    AckedWhenReceived = "flaw 32",
    /// Endings are delivered as they come and not in the order of speech.
    OrderNotKept = "flaw 88",
    /// A later ending of an utterance takes the place of the first.
    LaterEndingCounts = "flaw 88",
    /// A client that comes back is told again what it has seen.
    SeenToldAgain = "fadd830",

    // The store.
    /// A registration of a node frees all its slots.
    RegistrationFreesSlots = "flaw 7",
    /// A store that lost its data grants slots of a node before that has said what it runs.
    GrantBeforeReport = "flaws 51, 66",
    /// After a loss a store grants as soon as the node has said what it runs, also what is on its way to it.
    GrantDuringHold = "flaw 66",
    /// A node that has given no sign of life gets slots.
    StaleNodeGrants = "flaws 37, 38",
    /// A grant does not look at what the node can do now.
    ChangedNodeGrants = "flaw 37",
    /// Any attempt ends its job, also one that is not the current one.
    AnyAttemptEndsJob = "flaws 20, 34",
    /// A job that has ended can end again.
    EndedJobEndsAgain = "flaws 22, 88",
    /// An earlier attempt becomes the current one again.
    EarlierAttemptAssigned = "flaw 21",
    /// A job that exists is written again.
    JobCreatedTwice = "flaws 25, 85",
    /// An owner of a session that was superseded begins jobs.
    SupersededOwnerCreates = "flaw 78",
    /// An owner of a session that was superseded renews its ownership.
    SupersededOwnerRenews = "flaws 79, 80",
    /// An owner of a session that was superseded overwrites its saved state.
    SupersededOwnerSaves = "flaw 80",
    /// An instance that lost a node to another writes the node's record.
    SupersededInstanceBeats = "flaws 50, 80",
    /// A leader that overslept ends the lead of the next.
    OldLeaderResignsNext = "flaw 80",
    /// The same envelope, sent twice, is two entries of the inbox.
    EnvelopePostedTwice = "C2",

    // Between instances.
    /// A node that loses an attempt is not told to stop it, and its slot is given back.
    GivenUpNotStopped = "flaws 20, 87",
    /// An envelope that is read twice is acted on twice.
    EnvelopeActedOnTwice = "C1",
    /// A message to another instance is tried once.
    MessageTriedOnce = "C2",
    /// An instance reads the fleet before it says that it lives.
    PresenceWaitsForFleet = "C4",
    /// What a node says when it refuses a job goes through the store.
    TextInStore = "C5",
    /// An instance without the store takes a session back by a token that it never gave.
    NewerTokenWithoutStore = "C8",
    /// After an answer that was late everything is asserted again.
    LateAnswerReasserts = "C10",
    /// Of two sockets with one token both take the session.
    TwoResumesAtOnce = "S2",
    /// A slot that comes free is told to other instances only if the node looked full here.
    FreedSlotNotTold = "S3",
    /// Epochs follow the clock of whichever server is the primary.
    EpochsByServerClock = "S5",
    /// An ending that did not reach its session is dropped.
    EndingNotBroughtAgain = "S7",
    /// A record whose writing was not answered stays open.
    UnansweredRecordStaysOpen = "S8",
    /// A session whose queue is full is taken for one that is gone.
    FullQueueTakenForGone = "S9",
    /// A slot whose grant was not answered is left to lapse.
    UnansweredSlotKept = "flaw 10",
    /// What an earlier instance of a node says counts after the node has moved.
    FormerInstanceHeard = "flaw 78",
    /// A job on its way to a node is adopted before it is sent.
    AdoptedBeforeSent = "4f6fea0",
    /// Speech is acknowledged before the next owner could know of it.
    AckedBeforeSaved = "2ab29eb",
    /// An instance that drains ends before its last endings have arrived.
    DrainLeavesEndings = "370e203",
}

#[cfg(feature = "planted")]
impl Flaw {
    /// Its name as commands and tables spell it: `late-ack-takes-slot`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }

    /// The flaw of this name.
    pub fn parse(name: &str) -> Option<Flaw> {
        Self::ALL.iter().copied().find(|flaw| flaw.name() == name)
    }

    const fn bit(self) -> u128 {
        1 << self as u32
    }
}

#[cfg(feature = "planted")]
impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(all(test, feature = "planted"))]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_on_while_it_is_planted_and_on_this_thread_alone() {
        let flaw = Flaw::LateAckTakesSlot;
        assert!(!on(flaw));
        let planted = Planted::new([flaw]);
        let elsewhere = std::thread::spawn(move || on(flaw)).join().unwrap();
        assert!(on(flaw) && !on(Flaw::LeaseNeverLapses) && !elsewhere);
        let more = Planted::new([Flaw::LeaseNeverLapses]);
        assert!(on(flaw) && on(Flaw::LeaseNeverLapses));
        drop(more);
        assert!(on(flaw) && !on(Flaw::LeaseNeverLapses));
        drop(planted);
        assert!(Flaw::ALL.iter().all(|flaw| !on(*flaw)));
    }

    #[test]
    fn every_flaw_has_a_name_a_sentence_and_an_origin() {
        assert!(Flaw::ALL.len() <= 128, "one bit each");
        for flaw in Flaw::ALL {
            assert_eq!(Flaw::parse(&flaw.name()), Some(*flaw));
            assert!(flaw.what().ends_with('.') && !flaw.origin().is_empty(), "{flaw}");
        }
        assert_eq!(Flaw::LateAckTakesSlot.name(), "late-ack-takes-slot");
    }
}
