//! Jobs as operators see them: those that are open, and those that ended within the last hour. No contents.
//!
//! A job says how it went when it ends; here it is kept for an hour, within a bound that tenants share:
//! who has most of it loses its oldest. Jobs that went well and others have a bound of their own each, so
//! that many good ones do not push out the few that somebody asks about.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use lingua_core::eligibility::Route;
use lingua_core::job::JobState;
use lingua_core::{JobId, Lang, NodeId, Profile, SessionId, SessionKey, TenantId};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::retention::TenantRetention;
use crate::settings::Retention;

/// How long an ended job is kept.
pub const KEEP_MS: u64 = 3_600_000;

/// Ended jobs kept by one instance: half of them with a result, half without.
pub const MAX_KEPT: usize = 20_000;

/// About what one takes.
const BYTES: usize = 768;

/// Failed jobs that are told with the snapshot.
const LATEST: usize = 32;

/// A sentence of an ending is cut after so many characters.
const MAX_DETAIL: usize = 300;

/// How one job stands or went.
#[derive(Clone, Debug)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// Its direction.
    pub route: Route,
    /// The translation is to be spoken.
    pub speech: bool,
    /// By which figures it is decided.
    pub profile: Profile,
    /// For following it through all logs.
    pub trace_id: Arc<str>,
    /// Where it is.
    pub state: JobState,
    /// How it ended: `ok`, `empty` or a code.
    pub code: Option<Arc<str>>,
    /// A sentence for people, of a job that failed.
    pub detail: Option<Arc<str>>,
    /// Epoch milliseconds, as all that follow.
    pub created_ms: u64,
    /// When the first dispatch went out.
    pub dispatched_ms: Option<u64>,
    /// When a node first took it.
    pub acked_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// How long it was in line.
    pub waited_ms: u64,
    /// Every dispatch of it.
    pub attempts: Vec<AttemptSummary>,
    /// What is worth knowing about the choice.
    pub notes: Vec<String>,
}

/// One dispatch of a job.
#[derive(Clone, Debug)]
pub struct AttemptSummary {
    /// From 1.
    pub number: u32,
    /// Its node.
    pub node: NodeId,
    /// How the node came to be chosen.
    pub source: &'static str,
    /// Epoch milliseconds, as all that follow.
    pub sent_ms: u64,
    /// When the node took it.
    pub acked_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// How it ended, once it did.
    pub outcome: Option<AttemptOutcome>,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// The node answered, and the job ended by it.
    Ok,
    /// It failed or was stopped, with this code or reason.
    Failed(Arc<str>),
}

impl AttemptOutcome {
    /// `ok`, or the code or reason.
    pub fn as_str(&self) -> &str {
        match self {
            AttemptOutcome::Ok => "ok",
            AttemptOutcome::Failed(code) => code,
        }
    }
}

impl JobSummary {
    /// A sentence of an ending, as much of it as is kept.
    pub(crate) fn cut(text: &str) -> Arc<str> {
        match text.char_indices().nth(MAX_DETAIL) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.into(),
        }
    }

    fn cursor(&self) -> JobCursor {
        JobCursor { created_ms: self.created_ms, id: self.id }
    }
}

/// Which jobs are wanted; what is absent excludes nothing.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// It is in this state.
    pub state: Option<Wanted>,
    /// This language may be spoken in it.
    pub src: Option<Lang>,
    /// It is translated into this language; with `src`, in this direction.
    pub tgt: Option<Lang>,
    /// It is of this tenant.
    pub tenant: Option<TenantId>,
    /// It is of this session.
    pub session: Option<SessionId>,
    /// It had an attempt on this node.
    pub node: Option<NodeId>,
    /// It ended with this code.
    pub code: Option<String>,
}

/// A state, or all of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Not ended.
    Open,
    /// Ended, however.
    Ended,
    /// Exactly this one.
    State(JobState),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let state = || JobState::ALL.into_iter().find(|state| state.as_str() == text);
        match text {
            "open" => Ok(Wanted::Open),
            "ended" => Ok(Wanted::Ended),
            _ => state().map(Wanted::State).ok_or_else(|| {
                let all: Vec<&str> = JobState::ALL.iter().map(|state| state.as_str()).collect();
                format!("is open, ended or one of {}", all.join(", "))
            }),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wanted::Open => "open",
            Wanted::Ended => "ended",
            Wanted::State(state) => state.as_str(),
        })
    }
}

impl JobFilter {
    /// Whether a job is wanted.
    pub fn takes(&self, job: &JobSummary) -> bool {
        let fits = |wanted: Wanted| match wanted {
            Wanted::Open => !job.state.is_terminal(),
            Wanted::Ended => job.state.is_terminal(),
            Wanted::State(state) => job.state == state,
        };
        self.state.is_none_or(fits)
            && job.route.directions().any(|(src, tgt)| self.is_of(src, tgt))
            && self.tenant.as_ref().is_none_or(|tenant| tenant == job.session.tenant())
            && self.session.as_ref().is_none_or(|session| session == job.session.session())
            && self
                .node
                .as_ref()
                .is_none_or(|node| job.attempts.iter().any(|attempt| attempt.node == *node))
            && self.code.as_deref().is_none_or(|code| job.code.as_deref() == Some(code))
    }

    fn is_of(&self, src: Lang, tgt: Lang) -> bool {
        self.src.is_none_or(|wanted| wanted == src) && self.tgt.is_none_or(|wanted| wanted == tgt)
    }
}

/// A place in a list of jobs, the newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobCursor {
    /// When the last job before it was handed in.
    pub created_ms: u64,
    /// That job.
    pub id: JobId,
}

impl JobCursor {
    /// Sorts the newest first.
    pub fn order(&self) -> (std::cmp::Reverse<u64>, &str) {
        (std::cmp::Reverse(self.created_ms), self.id.as_str())
    }
}

impl fmt::Display for JobCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_ms, self.id)
    }
}

impl FromStr for JobCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once('.');
        let read = parts.and_then(|(created, id)| Some((created.parse().ok()?, id.parse().ok()?)));
        let (created_ms, id) = read.ok_or("is what `next` of the page before says")?;
        Ok(JobCursor { created_ms, id })
    }
}

/// So many jobs behind `after`, the newest first, and how many are wanted in all.
pub(crate) fn page(
    jobs: impl Iterator<Item = Arc<JobSummary>>,
    filter: &JobFilter,
    after: Option<&JobCursor>,
    limit: usize,
) -> (Vec<Arc<JobSummary>>, usize) {
    let mut page: Vec<_> = jobs.filter(|job| filter.takes(job)).collect();
    let total = page.len();
    if let Some(after) = after {
        page.retain(|job| job.cursor().order() > after.order());
    }
    if page.len() > limit {
        page.select_nth_unstable_by(limit, |a, b| a.cursor().order().cmp(&b.cursor().order()));
        page.truncate(limit);
    }
    page.sort_unstable_by(|a, b| a.cursor().order().cmp(&b.cursor().order()));
    (page, total)
}

/// The jobs of one instance that ended lately.
pub(crate) struct JobLog(Mutex<Kept>);

struct Kept {
    jobs: HashMap<JobId, Entry, lingua_core::hash::Quality>,
    /// Jobs with a result, and others.
    books: [TenantRetention<(JobId, u64)>; 2],
    /// The failed ones among them that ended last.
    failed: VecDeque<Arc<JobSummary>>,
    next: u64,
}

/// The number tells it from an earlier job of the same id.
struct Entry {
    number: u64,
    job: Arc<JobSummary>,
}

impl JobLog {
    pub fn new(shares: &HashMap<TenantId, u32>) -> Self {
        let half = MAX_KEPT / 2;
        let bounds = Retention { keep_ms: KEEP_MS, max_entries: half, max_bytes: half * BYTES };
        let book = || TenantRetention::new(bounds, shares.clone());
        JobLog(Mutex::new(Kept {
            jobs: HashMap::default(),
            books: [book(), book()],
            failed: VecDeque::new(),
            next: 0,
        }))
    }

    /// A job ended.
    pub fn ended(&self, job: JobSummary, now: Instant) {
        let job = Arc::new(job);
        let book = usize::from(job.state != JobState::Done);
        let mut gone = Vec::new();
        let mut kept = self.0.lock();
        let Kept { jobs, books, failed, next } = &mut *kept;
        if job.state == JobState::Failed {
            if failed.len() >= LATEST {
                failed.pop_front();
            }
            failed.push_back(Arc::clone(&job));
        }
        let number = *next;
        *next += 1;
        books[book].insert(job.session.tenant(), (job.id, number), BYTES, now);
        gone.extend(jobs.insert(job.id, Entry { number, job }));
        for book in books {
            while let Some((id, number)) = book.expire(now).or_else(|| book.evict()) {
                if jobs.get(&id).is_some_and(|entry| entry.number == number) {
                    gone.extend(jobs.remove(&id));
                }
            }
        }
        // Dropped outside of the lock.
        drop(kept);
    }

    pub fn get(&self, id: &JobId) -> Option<Arc<JobSummary>> {
        self.0.lock().jobs.get(id).map(|entry| Arc::clone(&entry.job))
    }

    /// All that ended not more than [`KEEP_MS`] before this moment.
    pub fn all(&self, now_ms: u64) -> Vec<Arc<JobSummary>> {
        let kept = self.0.lock();
        let lately = |job: &Arc<JobSummary>| {
            job.ended_ms.is_some_and(|ended_ms| ended_ms.saturating_add(KEEP_MS) >= now_ms)
        };
        kept.jobs.values().map(|entry| Arc::clone(&entry.job)).filter(lately).collect()
    }

    /// The failed jobs that ended last, the newest first.
    pub fn latest_failed(&self) -> Vec<Arc<JobSummary>> {
        self.0.lock().failed.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lingua_core::job_key::{JobKey, Origin};

    use super::*;

    fn job(n: u64, tenant: &str, state: JobState) -> JobSummary {
        let session = SessionKey::new(tenant.parse().unwrap(), format!("s-{n}").parse().unwrap());
        let code = if state == JobState::Done { "ok" } else { "JOB_TIMEOUT" };
        JobSummary {
            id: id(&session, n),
            session,
            route: "en->zh".parse().unwrap(),
            speech: true,
            profile: Profile::Stable,
            trace_id: "t".into(),
            state,
            code: state.is_terminal().then(|| code.into()),
            detail: None,
            created_ms: n,
            dispatched_ms: None,
            acked_ms: None,
            ended_ms: state.is_terminal().then_some(n),
            waited_ms: 0,
            attempts: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn id(session: &SessionKey, n: u64) -> JobId {
        let origin = Origin::Utterance { epoch: 1, index: n };
        let route = "en->zh".parse().unwrap();
        JobKey { session, origin, job_type: "f2f", route, features: &[] }.job_id()
    }

    fn log() -> JobLog {
        JobLog::new(&HashMap::new())
    }

    #[tokio::test(start_paused = true)]
    async fn good_jobs_push_out_no_failed_one_and_a_tenant_no_other() {
        let (log, now) = (log(), Instant::now());
        log.ended(job(1, "a", JobState::Failed), now);
        log.ended(job(2, "b", JobState::Done), now);
        for n in 3..20_000 {
            log.ended(job(n, "a", JobState::Done), now);
        }
        let kept = log.all(20_000);
        assert_eq!(kept.len(), MAX_KEPT / 2 + 1);
        assert!(kept.iter().any(|job| job.created_ms == 1), "the failed one");
        assert!(kept.iter().any(|job| job.created_ms == 2), "that of the other tenant");
        assert!(kept.iter().all(|job| job.created_ms != 3), "the oldest of the one with most");
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_a_job_is_forgotten() {
        let (log, now) = (log(), Instant::now());
        log.ended(job(1, "a", JobState::Failed), now);
        assert_eq!((log.all(KEEP_MS).len(), log.all(KEEP_MS + 2).len()), (1, 0));
        let later = now + Duration::from_millis(KEEP_MS + 1);
        log.ended(job(2, "a", JobState::Done), later);
        assert!(log.get(&job(1, "a", JobState::Failed).id).is_none());
        assert_eq!(log.latest_failed().len(), 1, "what the snapshot tells is bounded by number");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_ends_twice_under_one_id_is_the_later_one_until_its_own_time() {
        let (log, now) = (log(), Instant::now());
        log.ended(job(1, "a", JobState::Failed), now);
        let half = now + Duration::from_millis(KEEP_MS / 2);
        log.ended(job(1, "a", JobState::Done), half);
        let later = now + Duration::from_millis(KEEP_MS + 1);
        log.ended(job(2, "a", JobState::Done), later);
        let kept = log.get(&job(1, "a", JobState::Done).id).unwrap();
        assert_eq!(kept.state, JobState::Done);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap_or_a_double() {
        let states = [JobState::Done, JobState::Failed, JobState::Acked];
        let jobs: Vec<_> = (0..100_u64)
            .map(|n| Arc::new(job(n, "a", states[n as usize % 3])))
            .map(|one| if one.created_ms < 90 { one } else { same_moment(&one) })
            .collect();
        let filter = JobFilter { state: Some(Wanted::Ended), ..JobFilter::default() };
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let (page, total) = page(jobs.iter().cloned(), &filter, after.as_ref(), 7);
            assert_eq!(total, 67);
            let Some(last) = page.last() else { break };
            let written = last.cursor().to_string();
            after = Some(written.parse().unwrap());
            seen.extend(page.iter().map(|job| (job.created_ms, job.id)));
        }
        assert_eq!(seen.len(), 67);
        assert!(seen.windows(2).all(|two| two[0].0 >= two[1].0), "the newest first");
        seen.sort_unstable_by_key(|(_, id)| id.to_string());
        seen.dedup();
        assert_eq!(seen.len(), 67);
        assert!("12".parse::<JobCursor>().is_err() && "x.y".parse::<JobCursor>().is_err());
    }

    fn same_moment(one: &JobSummary) -> Arc<JobSummary> {
        Arc::new(JobSummary { created_ms: 90, ..one.clone() })
    }

    #[test]
    fn a_filter_takes_what_fits_in_all_that_it_names() {
        let mut one = job(1, "a", JobState::Failed);
        let attempt = |node: &str| AttemptSummary {
            number: 1,
            node: node.parse().unwrap(),
            source: "sample",
            sent_ms: 1,
            acked_ms: None,
            ended_ms: None,
            outcome: None,
        };
        one.attempts = vec![attempt("n-1"), attempt("n-2")];
        let takes = |change: &dyn Fn(&mut JobFilter)| {
            let mut filter = JobFilter::default();
            change(&mut filter);
            filter.takes(&one)
        };
        assert!(takes(&|_| {}));
        assert!(takes(&|f| f.node = Some("n-1".parse().unwrap())), "also an earlier attempt's");
        assert!(!takes(&|f| f.node = Some("n-3".parse().unwrap())));
        assert!(takes(&|f| f.code = Some("JOB_TIMEOUT".into())));
        assert!(!takes(&|f| f.code = Some("ok".into())));
        assert!(!takes(&|f| f.tenant = Some("b".parse().unwrap())));
        assert!(!takes(&|f| f.session = Some("s-2".parse().unwrap())));
        assert!(takes(&|f| f.src = Some("en".parse().unwrap())));
        assert!(!takes(&|f| f.src = Some("zh".parse().unwrap())));
        assert!(!takes(&|f| f.tgt = Some("en".parse().unwrap())));
        for (wanted, fits) in [("open", false), ("ended", true), ("FAILED", true), ("DONE", false)]
        {
            let wanted: Wanted = wanted.parse().unwrap();
            assert_eq!(takes(&|f| f.state = Some(wanted)), fits, "{wanted}");
        }
        let into_en = JobFilter { tgt: Some("en".parse().unwrap()), ..JobFilter::default() };
        assert!(into_en.takes(&JobSummary { route: "en<->zh".parse().unwrap(), ..one.clone() }));
        assert!("done".parse::<Wanted>().unwrap_err().contains("CANCELLED"));
    }

    #[test]
    fn a_long_sentence_is_cut() {
        assert_eq!(JobSummary::cut(&"é".repeat(500)).chars().count(), MAX_DETAIL + 1);
        assert_eq!(&*JobSummary::cut("short"), "short");
    }
}
