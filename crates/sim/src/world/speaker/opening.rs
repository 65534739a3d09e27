//! What a client asks for when it opens a session.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Route;
use lingua_core::fleet::Fallbacks;
use lingua_core::inventory::Requirements;
use lingua_core::session::Routes;
use lingua_core::{Lang, TenantId};
use lingua_engine::job::{Asked, JobOptions};
use lingua_engine::sessions::inbound::{Opening, Resume, Supports};
use lingua_engine::sessions::options::SpeechOptions;

use super::Speaker;
use crate::plan::ClientKind;

/// The languages into which is translated.
pub(super) const TARGETS: [&str; 2] = ["zh", "de"];

/// A sentence that is held up is no pause.
const PAUSE: Duration = Duration::from_secs(30);

fn lang(tag: &str) -> Lang {
    Lang::new(tag).expect("a tag")
}

impl Speaker {
    pub(super) fn opening(&self) -> Opening {
        let targets = &TARGETS[..self.plan.targets];
        let routes = targets.iter().map(|tag| Route::Directed(lang("en"), lang(tag)));
        let job = JobOptions {
            src_lang: "en".to_owned(),
            tgt_lang: TARGETS[0].to_owned(),
            ..JobOptions::default()
        };
        let options = SpeechOptions {
            routes: Routes::new(routes).expect("different targets"),
            speech: true,
            typed: false,
            asked: Asked::default(),
            asks: Requirements::default(),
            fallbacks: Fallbacks { captions: true, ..Fallbacks::NONE },
            says_form: false,
            profile: None,
            steps: None,
            job,
            untranslated: None,
            audio_format: "pcm16",
            sample_rate: 16_000,
        };
        let supports = match self.plan.kind {
            ClientKind::Resuming => {
                Supports { audio_ack: true, resume: true, ..Supports::default() }
            }
            ClientKind::Plain => Supports { events: true, ..Supports::default() },
            ClientKind::Existing => Supports { existing: true, ..Supports::default() },
        };
        let several = self.last_indexes.iter().filter(|_| self.plan.targets > 1);
        let last_indexes = several.map(|(tag, last)| (lang(tag), *last));
        let resume = self.token.clone().filter(|_| self.resumes()).map(|token| Resume {
            token,
            // Of several targets it is said of each.
            last_index: self.last_index.filter(|_| self.plan.targets == 1),
            last_indexes: last_indexes.collect(),
        });
        Opening {
            tenant: TenantId::new(format!("tenant-{}", self.number % 2)).expect("a name"),
            subject: Some(format!("speaker-{}", self.number).into()),
            address: IpAddr::from([127, 0, 0, 1]),
            options: Arc::new(options),
            trace_id: None,
            traceparent: None,
            supports,
            pause: Some(PAUSE),
            max_utterance: None,
            resume,
        }
    }
}
