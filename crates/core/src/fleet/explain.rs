//! Why a job would find a node or none, for operators as numbers and for callers as a sentence.

use std::fmt;

use super::Node;
use super::services_down::{ServicesDown, is_for_everybody};
use super::signature::Signature;
use crate::eligibility::{Need, Route, WhyNot};
use crate::inventory::Asks;
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
    /// One thing that is asked for by name.
    Asked(Asks),
}

impl Ability {
    /// Whether it takes a service of this type.
    pub(super) fn takes_service(&self, kind: &str) -> bool {
        match self {
            Ability::Asr(_) => kind == ServiceKind::ASR,
            Ability::Semantic(_) => kind == ServiceKind::SEMANTIC,
            Ability::Nmt(..) => kind == ServiceKind::NMT,
            Ability::Tts(_) => kind == ServiceKind::TTS,
            Ability::Asked(asks) => asks.services.iter().any(|asked| asked.name.as_str() == kind),
            Ability::Text => false,
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
            Ability::Asked(asks) => asks.each().try_for_each(|ask| write!(f, "{ask}")),
        }
    }
}

/// What a fleet lacks for a job. Nodes that other tenants or their owners keep to themselves do not
/// exist for it, so that nobody learns from it what they can do. The text is the sentence for the
/// caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// No node at all has any of these.
    Missing(Vec<Ability>, Counts),
    /// Some node has each of these, and none has them all.
    NotTogether(Vec<Ability>, Counts),
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

/// How many nodes are in the way of what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// So many list these services as not ready.
    pub services_down: Vec<(ServiceKind, u32)>,
    /// So many do not have these things that are asked for by name. Nodes that are not for everybody are not
    /// counted.
    pub without: Vec<(Ability, u32)>,
}

impl Counts {
    fn of(abilities: &[Ability], without: Vec<(Ability, u32)>, services: &ServicesDown) -> Self {
        let without = without.into_iter().filter(|(_, nodes)| *nodes > 0).collect();
        Counts { services_down: services.needed_for(abilities), without }
    }
}

impl Shortage {
    /// That no node has any of these, without a look at the nodes.
    pub(super) fn of_all(missing: Vec<Ability>, services: &ServicesDown) -> Self {
        let asked = missing.iter().filter(|ability| matches!(ability, Ability::Asked(_)));
        let without = asked.map(|ability| (ability.clone(), services.nodes())).collect();
        let counts = Counts::of(&missing, without, services);
        Shortage::Missing(missing, counts)
    }

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
            Shortage::Missing(list, counts) => {
                write!(f, "No node supports {}{counts}.", Joined(list, " + "))
            }
            Shortage::NotTogether(list, counts) => {
                write!(f, "No single node supports {}{counts}.", Joined(list, " + "))
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

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list_counts(f, "not on", &self.without)?;
        list_counts(f, "listed as not ready", &self.services_down)
    }
}

/// ` (not on: model(x) on 3 nodes)`; nothing if nothing is counted.
fn list_counts<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    counts: &[(T, u32)],
) -> fmt::Result {
    for (i, (thing, nodes)) in counts.iter().enumerate() {
        let before = if i > 0 { ", ".to_owned() } else { format!(" ({what}: ") };
        let plural = if *nodes == 1 { "" } else { "s" };
        write!(f, "{before}{thing} on {nodes} node{plural}")?;
    }
    f.write_str(if counts.is_empty() { "" } else { ")" })
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
        let mut asked: Vec<Asked> = need.asks.each().map(|ask| Asked::new(ask.alone())).collect();
        let (mut able, mut passes, mut blocked) = (false, false, Vec::new());
        for (node, have) in nodes {
            if asked.is_empty()
                && !probes.iter().all(|probe| probe.may_pass(have))
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
            asked.iter_mut().for_each(|asked| asked.look_at(node));
        }
        let probed = probes.iter().flat_map(|probe| &probe.abilities);
        let probed = probed.map(|(_, ability, found)| (ability, *found));
        let by_name = asked.iter().map(|asked| (&asked.ability, asked.found));
        let all: Vec<(&Ability, bool)> = probed.chain(by_name).collect();
        let names = || all.iter().map(|(ability, _)| (*ability).clone()).collect();
        if able {
            blocked.sort_unstable();
            blocked.dedup();
            return Some(Shortage::Unavailable { abilities: names(), why: blocked, passes });
        }
        let without = |only_missing: bool| {
            let counted = asked.iter().filter(|asked| !(only_missing && asked.found));
            counted.map(|asked| (asked.ability.clone(), asked.without)).collect()
        };
        let missing: Vec<Ability> =
            all.iter().filter(|(_, found)| !found).map(|(ability, _)| (*ability).clone()).collect();
        if missing.is_empty() {
            let names: Vec<Ability> = names();
            let counts = Counts::of(&names, without(false), services_down);
            return Some(Shortage::NotTogether(names, counts));
        }
        // Recognition follows repair unless a node says otherwise: one word says both.
        let implied = |ability: &Ability| matches!(ability, Ability::Asr(lang) if missing.contains(&Ability::Semantic(*lang)));
        let counts = Counts::of(&missing, without(true), services_down);
        let told = missing.iter().filter(|a| !implied(a)).cloned().collect();
        Some(Shortage::Missing(told, counts))
    }
}

/// Whether a node of this health takes jobs again without anybody acting. One that is overdue is ready
/// by its last word.
fn is_passing(health: Health) -> bool {
    matches!(health, Health::Registering | Health::Ready | Health::Degraded)
}

fn probes(need: &Need, wanted: &[Signature]) -> Vec<Probe> {
    let blank = |route: Route| Need { route, asks: Asks::NONE, ..need.clone() };
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
    if need.typed {
        // Of this a signature says nothing.
        let wanted = Signature::default();
        let abilities = vec![(WhyNot::Text, Ability::Text, false)];
        probes.push(Probe { need: blank(need.route), abilities, wanted });
    }
    probes
}

/// One thing that a job asks for by name, and how many nodes do not have it.
struct Asked {
    asks: Asks,
    ability: Ability,
    found: bool,
    without: u32,
}

impl Asked {
    fn new(asks: Asks) -> Self {
        Asked { ability: Ability::Asked(asks.clone()), asks, found: false, without: 0 }
    }

    fn look_at(&mut self, node: Node<'_>) {
        let missing = &node.standing().missing_models;
        let has = self.asks.each().all(|ask| node.profile().has(ask, missing));
        self.found |= has;
        self.without += u32::from(!has && is_for_everybody(node.profile()));
    }
}
