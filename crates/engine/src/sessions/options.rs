//! How speech is to be worked on.

use lingua_core::Profile;
use lingua_core::eligibility::Route;
use lingua_core::fleet::Fallbacks;
use lingua_core::inventory::Requirements;
use lingua_core::session::Routes;
use lingua_protocol::JobOptions;
use lingua_protocol::asked::Asked;
use lingua_protocol::options::JsonObject;

/// How the speech of a session is to be worked on.
#[derive(Clone, Debug)]
pub struct SpeechOptions {
    /// The directions, one job for each.
    pub routes: Routes,
    /// The translation is to be spoken.
    pub speech: bool,
    /// What is said is a text.
    pub typed: bool,
    /// What the client asks for by name.
    pub asked: Asked,
    /// The same with the services that its steps ask for.
    pub asks: Requirements,
    /// What will do if no node does all of it.
    pub fallbacks: Fallbacks,
    /// The client wants to hear in which form its answers are.
    pub says_form: bool,
    /// By which figures its jobs are decided, if it says so.
    pub profile: Option<Profile>,
    /// The steps that the client named for its session.
    pub steps: Option<JsonObject>,
    /// What the client wants of each job. Of several targets it names the first.
    pub job: JobOptions,
    /// The steps for a target that is the language spoken, if there is one among several.
    pub untranslated: Option<JsonObject>,
    /// `opus`, `pcm16`, …
    pub audio_format: &'static str,
    /// In Hz.
    pub sample_rate: u32,
}

impl SpeechOptions {
    /// What is wanted of the job of one direction. Of several targets the node is told the tag, of one what
    /// the client wrote.
    pub(super) fn of(&self, route: &Route) -> JobOptions {
        let mut job = self.job.clone();
        if let Route::Directed(source, target) = route {
            if self.routes.lanes() > 1 {
                job.tgt_lang = target.to_string();
            }
            if source == target && self.untranslated.is_some() {
                job.pipeline.clone_from(&self.untranslated);
            }
        }
        job
    }
}
