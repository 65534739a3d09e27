//! Why a job would find a node or none, for operators as numbers and for callers as a sentence.

use std::fmt;

use super::Node;
use super::services_down::ServicesDown;
use super::signature::Signature;
use crate::eligibility::{Need, Route, WhyNot};
use crate::ids::ModelId;
use crate::lang::Lang;
use crate::node::{Health, ServiceKind};
use crate::outcome::Code;

/// How the fleet stands to a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explanation {
    /// Nodes looked at.
    pub nodes: usize,
    /// Nodes that may take the job.
    pub eligible: usize,
    /// Those of them that are asked only when no other has a free slot.
    pub last_resort: usize,
    /// Slots of the eligible ones that are open to jobs.
    pub open_slots: u64,
    /// Slots of theirs that are not open yet.
    pub slots_not_open: u64,
    against: [usize; WhyNot::ALL.len()],
}

impl Explanation {
    pub(super) fn of<'a>(nodes: impl Iterator<Item = Node<'a>>, need: &Need) -> Self {
        let mut explanation = Explanation::default();
        for node in nodes {
            let why = node.why_not(need);
            explanation.nodes += 1;
            explanation.eligible += usize::from(why.is_empty());
            explanation.last_resort += usize::from(why.is_empty() && node.is_last_resort());
            if why.is_empty() {
                let (open, declared) = (node.max(), node.profile().max_slots);
                explanation.open_slots += u64::from(open);
                explanation.slots_not_open += u64::from(declared.saturating_sub(open));
            }
            for reason in why.iter() {
                explanation.against[reason as usize] += 1;
            }
        }
        explanation
    }

    /// How many nodes this reason keeps from the job; a node can have several.
    pub fn against(&self, reason: WhyNot) -> usize {
        self.against[reason as usize]
    }

    /// Every reason that keeps some node from the job, with the number of nodes.
    pub fn reasons(&self) -> impl Iterator<Item = (WhyNot, usize)> {
        let all = WhyNot::ALL.iter().map(|reason| (*reason, self.against(*reason)));
        all.filter(|(_, nodes)| *nodes > 0)
    }
}

/// One thing a job asks of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ability {
    /// Recognise a language.
    Asr(Lang),
    /// Take a text in place of speech.
    Text,
    /// Repair what was recognised in it.
    Semantic(Lang),
    /// Translate from one into another.
    Nmt(Lang, Lang),
    /// Speak a language.
    Tts(Lang),
    /// A further service.
    Service(ServiceKind),
    /// A model.
    Model(ModelId),
}

impl Ability {
    /// The service that it takes; empty for what takes none.
    pub(super) fn service(&self) -> &str {
        match self {
            Ability::Asr(_) => ServiceKind::ASR,
            Ability::Semantic(_) => ServiceKind::SEMANTIC,
            Ability::Nmt(..) => ServiceKind::NMT,
            Ability::Tts(_) => ServiceKind::TTS,
            Ability::Service(kind) => kind.as_str(),
            Ability::Text | Ability::Model(_) => "",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ability::Asr(lang) => write!(f, "asr({lang})"),
            Ability::Text => f.write_str("text input"),
            Ability::Semantic(lang) => write!(f, "semantic({lang})"),
            Ability::Nmt(src, tgt) => write!(f, "nmt({src}->{tgt})"),
            Ability::Tts(lang) => write!(f, "tts({lang})"),
            Ability::Service(kind) => write!(f, "service({kind})"),
            Ability::Model(model) => write!(f, "model({model})"),
        }
    }
}

/// What a fleet lacks for a job. Nodes that other tenants or their owners keep to themselves do not
/// exist for it, so that nobody learns from it what they can do. The text is the sentence for the
/// caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// No node at all has any of these. So many nodes list these services for it as not ready.
    Missing(Vec<Ability>, Vec<(ServiceKind, u32)>),
    /// Some node has each of these, and none has them all. So many nodes list these services for it as
    /// not ready.
    NotTogether(Vec<Ability>, Vec<(ServiceKind, u32)>),
    /// Nodes with all of these are there, and for these reasons none takes jobs now.
    Unavailable {
        /// What they have.
        abilities: Vec<Ability>,
        /// What is in the way.
        why: Vec<WhyNot>,
        /// For one of them at least it passes without anybody acting.
        passes: bool,
    },
}

impl Shortage {
    /// What the caller is told: whether trying again soon is of use.
    pub fn code(&self) -> Code {
        match self {
            Shortage::Unavailable { passes: true, .. } => Code::NodeUnavailable,
            _ => Code::NoCapableNode,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::Missing(list, services_down) => {
                write!(f, "No node supports {}{}.", Joined(list, " + "), ListedDown(services_down))
            }
            Shortage::NotTogether(list, services_down) => {
                write!(
                    f,
                    "No single node supports {}{}.",
                    Joined(list, " + "),
                    ListedDown(services_down)
                )
            }
            Shortage::Unavailable { abilities, why, .. } => {
                let why: Vec<&str> = why.iter().map(|reason| unavailable(*reason)).collect();
                let (list, why) = (Joined(abilities, " + "), Joined(&why, ", "));
                write!(f, "No node that supports {list} takes jobs now ({why}).")
            }
        }
    }
}

fn unavailable(reason: WhyNot) -> &'static str {
    match reason {
        WhyNot::Health => "not ready",
        WhyNot::Stale => "heartbeat overdue",
        other => other.as_str(),
    }
}

struct ListedDown<'a>(&'a [(ServiceKind, u32)]);

impl fmt::Display for ListedDown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (kind, nodes)) in self.0.iter().enumerate() {
            let before = if i > 0 { ", " } else { " (listed as not ready: " };
            let plural = if *nodes == 1 { "" } else { "s" };
            write!(f, "{before}{kind} on {nodes} node{plural}")?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}

struct Joined<'a, T>(&'a [T], &'static str);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { self.1 } else { "" })?;
        }
        Ok(())
    }
}

/// One question to the predicate, and which ability each of its reasons stands for.
struct Probe {
    need: Need,
    abilities: Vec<(WhyNot, Ability, bool)>,
    /// What it asks for, as far as a signature says it.
    wanted: Signature,
}

impl Probe {
    fn all_found(&self) -> bool {
        self.abilities.iter().all(|(.., found)| *found)
    }

    /// Whether a node with this signature may have all the abilities.
    fn may_pass(&self, have: &Signature) -> bool {
        self.abilities.iter().all(|(reason, ..)| have.may_pass(*reason, &self.wanted))
    }

    /// Whether it may have one that was not found so far.
    fn may_find(&self, have: &Signature) -> bool {
        let mut open = self.abilities.iter().filter(|(.., found)| !found);
        open.any(|(reason, ..)| have.may_pass(*reason, &self.wanted))
    }
}

impl Shortage {
    /// Looks at the nodes, each with its signature: that is all of those of whom it says that they
    /// neither serve the pair nor have an ability that was not met before. `wanted` has what each
    /// direction asks for.
    pub(super) fn of<'a>(
        nodes: impl Iterator<Item = (Node<'a>, &'a Signature)>,
        need: &Need,
        wanted: &[Signature],
        services_down: &ServicesDown,
    ) -> Option<Shortage> {
        let mut probes = probes(need, wanted);
        let (mut able, mut passes, mut blocked) = (false, false, Vec::new());
        for (node, have) in nodes {
            if !probes.iter().all(|probe| probe.may_pass(have))
                && !probes.iter().any(|probe| probe.may_find(have))
            {
                continue;
            }
            let why = node.why_not(need);
            if why.is_empty() {
                return None;
            }
            if why.contains(WhyNot::Tenant) || why.contains(WhyNot::Private) {
                continue;
            }
            let now = [WhyNot::Health, WhyNot::Stale];
            if why.iter().all(|reason| now.contains(&reason)) {
                able = true;
                passes |= is_passing(node.standing().health);
                blocked.extend(why.iter());
            }
            for probe in probes.iter_mut().filter(|probe| !probe.all_found()) {
                let why = node.why_not(&probe.need);
                for (reason, _, found) in &mut probe.abilities {
                    *found |= !why.contains(*reason);
                }
            }
        }
        let all = || probes.iter().flat_map(|probe| &probe.abilities);
        let names = || all().map(|(_, ability, _)| ability.clone()).collect();
        if able {
            blocked.sort_unstable();
            blocked.dedup();
            return Some(Shortage::Unavailable { abilities: names(), why: blocked, passes });
        }
        let missing: Vec<Ability> =
            all().filter(|(.., found)| !found).map(|(_, ability, _)| ability.clone()).collect();
        if missing.is_empty() {
            let names: Vec<Ability> = names();
            let services_down = services_down.needed_for(&names);
            return Some(Shortage::NotTogether(names, services_down));
        }
        // Recognition follows repair unless a node says otherwise: one word says both.
        let implied = |ability: &Ability| matches!(ability, Ability::Asr(lang) if missing.contains(&Ability::Semantic(*lang)));
        let services_down = services_down.needed_for(&missing);
        let told = missing.iter().filter(|a| !implied(a)).cloned().collect();
        Some(Shortage::Missing(told, services_down))
    }
}

/// Whether a node of this health takes jobs again without anybody acting. One that is overdue is ready
/// by its last word.
fn is_passing(health: Health) -> bool {
    matches!(health, Health::Registering | Health::Ready | Health::Degraded)
}

fn probes(need: &Need, wanted: &[Signature]) -> Vec<Probe> {
    let blank = |route: Route| Need { route, services: vec![], models: vec![], ..need.clone() };
    let mut probes = Vec::new();
    for ((src, tgt), wanted) in need.route.directions().zip(wanted) {
        let mut abilities = vec![(WhyNot::Semantic, Ability::Semantic(src), false)];
        if !need.typed {
            abilities.insert(0, (WhyNot::Asr, Ability::Asr(src), false));
        }
        if src != tgt {
            abilities.push((WhyNot::Nmt, Ability::Nmt(src, tgt), false));
        }
        if need.speech {
            abilities.push((WhyNot::Tts, Ability::Tts(tgt), false));
        }
        let need = blank(Route::Directed(src, tgt));
        probes.push(Probe { need, abilities, wanted: *wanted });
    }
    // Of these a signature says nothing.
    let wanted = Signature::default();
    if need.typed {
        let abilities = vec![(WhyNot::Text, Ability::Text, false)];
        probes.push(Probe { need: blank(need.route), abilities, wanted });
    }
    for kind in &need.services {
        let abilities = vec![(WhyNot::Service, Ability::Service(kind.clone()), false)];
        let need = Need { services: vec![kind.clone()], ..blank(need.route) };
        probes.push(Probe { need, abilities, wanted });
    }
    for model in &need.models {
        let abilities = vec![(WhyNot::Model, Ability::Model(model.clone()), false)];
        let need = Need { models: vec![model.clone()], ..blank(need.route) };
        probes.push(Probe { need, abilities, wanted });
    }
    probes
}
