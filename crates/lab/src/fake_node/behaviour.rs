//! What a simulated node does with its jobs, and the dice that decide it.

use std::time::Duration;

use anyhow::ensure;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_9;

/// How a node treats its jobs. Rates go from 0 to 1. `crash`, `reject`, `model_missing`,
/// `never_answer` and `fail` exclude each other, so together they are at most 1; what is left is
/// answered well. `drop_ack` is drawn apart from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// How long a job takes.
    pub latency: Latency,
    /// Ends in a `job_result` that says so, with `fail_code`.
    pub fail: f64,
    /// The code of such results.
    pub fail_code: String,
    /// Is refused as `BUSY`.
    pub reject: f64,
    /// Is refused as `MODEL_NOT_AVAILABLE`.
    pub model_missing: f64,
    /// Is worked on and answered, but never acked.
    pub drop_ack: f64,
    /// Is acked and never answered, until it is cancelled.
    pub never_answer: f64,
    /// Takes the whole node down before it is done: the connection is dropped without a close, all
    /// its jobs and unacked results are forgotten, and it comes back after `crash_pause`.
    pub crash: f64,
    /// How long a crashed node stays away.
    pub crash_pause: Duration,
    /// Whether it says when it starts on a job.
    pub started: bool,
    /// Whether it sends an `asr_partial` on the way.
    pub partials: bool,
    /// Whether it sends a `job_progress` on the way.
    pub progress: bool,
    /// What it recognises in every job; without it, a text that tells which utterance it is.
    pub says: Option<String>,
    /// Texts for people who look, such as `[zh] sentence 3, 2.1 s`; without it, texts that tell which attempt of which
    /// job on which node it was.
    pub readable: bool,
    /// How much speech comes with a result, in bytes before base64, rounded up to a multiple of 3.
    pub tts_audio_bytes: usize,
    /// The same seed, name and jobs in the same order give the same run.
    pub seed: u64,
}

/// How long jobs take; zero is answered at once, in the same write as the ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latency {
    /// Always the same.
    Fixed {
        /// The time.
        ms: u64,
    },
    /// Anything from `min_ms` to `max_ms`, equally likely.
    Uniform {
        /// The shortest.
        min_ms: u64,
        /// The longest.
        max_ms: u64,
    },
    /// Half of all jobs take longer than `p50_ms`, one in a hundred longer than `p99_ms`
    /// (log-normal), as processing times do.
    Spread {
        /// The median.
        p50_ms: u64,
        /// The 99th percentile.
        p99_ms: u64,
    },
}

/// What becomes of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answer,
    Fail,
    Reject,
    ModelMissing,
    NeverAnswer,
    /// Is worked on, and what comes of it is told to nobody.
    Swallow,
    Crash,
}

/// Everything that is drawn for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Throw {
    pub fate: Fate,
    pub drop_ack: bool,
    pub latency: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            latency: Latency::Fixed { ms: 0 },
            fail: 0.0,
            fail_code: "PROCESSING_ERROR".to_owned(),
            reject: 0.0,
            model_missing: 0.0,
            drop_ack: 0.0,
            never_answer: 0.0,
            crash: 0.0,
            crash_pause: Duration::from_millis(500),
            started: false,
            partials: false,
            progress: false,
            says: None,
            readable: false,
            tts_audio_bytes: 0,
            seed: 0,
        }
    }
}

impl Behaviour {
    /// Every job takes this long and ends well.
    pub fn taking_ms(ms: u64) -> Self {
        Self { latency: Latency::Fixed { ms }, ..Self::default() }
    }

    /// An error if no dice can be made of it.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let rates = [self.crash, self.reject, self.model_missing, self.never_answer, self.fail];
        for rate in rates.into_iter().chain([self.drop_ack]) {
            ensure!((0.0..=1.0).contains(&rate), "a rate of {rate} is not between 0 and 1");
        }
        let sum: f64 = rates.into_iter().sum();
        ensure!(sum <= 1.0 + f64::EPSILON, "the rates that exclude each other add up to {sum}");
        match self.latency {
            Latency::Uniform { min_ms, max_ms } if min_ms > max_ms => {
                anyhow::bail!("a latency from {min_ms} to {max_ms} ms")
            }
            Latency::Spread { p50_ms, p99_ms } if p50_ms > p99_ms => {
                anyhow::bail!("a latency with a median of {p50_ms} ms above its p99 of {p99_ms}")
            }
            _ => Ok(()),
        }
    }

    /// The dice of the node with that name.
    pub(super) fn dice(&self, node_id: &str) -> SmallRng {
        // FNV-1a: nodes with one seed differ, and the same node is the same in the next run.
        let name = node_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        SmallRng::seed_from_u64(self.seed ^ name)
    }

    /// Draws for one job. Always the same number of draws, so that a changed rate changes only what
    /// it is the rate of.
    pub(super) fn throw(&self, dice: &mut SmallRng) -> Throw {
        let [fate, ack, one, two]: [f64; 4] = dice.random();
        Throw {
            fate: self.fate(fate),
            drop_ack: ack < self.drop_ack,
            latency: self.latency.draw(one, two),
        }
    }

    fn fate(&self, draw: f64) -> Fate {
        let mut below = 0.0;
        for (rate, fate) in [
            (self.crash, Fate::Crash),
            (self.reject, Fate::Reject),
            (self.model_missing, Fate::ModelMissing),
            (self.never_answer, Fate::NeverAnswer),
            (self.fail, Fate::Fail),
        ] {
            below += rate;
            if draw < below {
                return fate;
            }
        }
        Fate::Answer
    }
}

impl Latency {
    fn draw(self, one: f64, two: f64) -> Duration {
        let ms = match self {
            Latency::Fixed { ms } => return Duration::from_millis(ms),
            Latency::Uniform { min_ms, max_ms } => {
                min_ms as f64 + one * max_ms.saturating_sub(min_ms) as f64
            }
            Latency::Spread { p50_ms: 0, .. } => return Duration::ZERO,
            Latency::Spread { p50_ms, p99_ms } => {
                // Box and Muller; `1 - one` is never zero.
                let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * two).cos();
                let sigma = (p99_ms as f64 / p50_ms as f64).ln() / Z99;
                p50_ms as f64 * (sigma * normal).exp()
            }
        };
        Duration::from_micros((ms * 1000.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throws(behaviour: &Behaviour, count: usize) -> Vec<Throw> {
        let mut dice = behaviour.dice("node-1");
        (0..count).map(|_| behaviour.throw(&mut dice)).collect()
    }

    #[test]
    fn the_same_seed_and_name_throw_the_same() {
        let behaviour = Behaviour {
            latency: Latency::Uniform { min_ms: 1, max_ms: 90 },
            fail: 0.3,
            ..Behaviour::default()
        };
        assert_eq!(throws(&behaviour, 50), throws(&behaviour, 50));
        let other = Behaviour { seed: 1, ..behaviour.clone() };
        assert_ne!(throws(&behaviour, 50), throws(&other, 50));
        assert_ne!(behaviour.dice("node-1"), behaviour.dice("node-2"));
    }

    #[test]
    fn rates_come_out_as_given() {
        let behaviour = Behaviour {
            crash: 0.1,
            reject: 0.2,
            model_missing: 0.1,
            never_answer: 0.1,
            fail: 0.2,
            drop_ack: 0.5,
            ..Behaviour::default()
        };
        behaviour.check().unwrap();
        let throws = throws(&behaviour, 20_000);
        let share = |wanted: &dyn Fn(&Throw) -> bool| {
            throws.iter().filter(|throw| wanted(throw)).count() as f64 / throws.len() as f64
        };
        for (fate, rate) in [
            (Fate::Crash, 0.1),
            (Fate::Reject, 0.2),
            (Fate::ModelMissing, 0.1),
            (Fate::NeverAnswer, 0.1),
            (Fate::Fail, 0.2),
            (Fate::Answer, 0.3),
        ] {
            let drawn = share(&|throw| throw.fate == fate);
            assert!((drawn - rate).abs() < 0.02, "{fate:?}: {drawn}");
        }
        assert!((share(&|throw| throw.drop_ack) - 0.5).abs() < 0.02);
    }

    #[test]
    fn a_spread_latency_has_its_median_and_its_99th_percentile() {
        let latency = Latency::Spread { p50_ms: 100, p99_ms: 1000 };
        let mut drawn: Vec<_> = throws(&Behaviour { latency, ..Behaviour::default() }, 20_000)
            .into_iter()
            .map(|throw| throw.latency.as_millis())
            .collect();
        drawn.sort_unstable();
        let (p50, p99) = (drawn[10_000], drawn[19_800]);
        assert!((95..=105).contains(&p50), "{p50}");
        assert!((850..=1150).contains(&p99), "{p99}");
    }

    #[test]
    fn impossible_rates_and_latencies_are_refused() {
        let good = Behaviour::default();
        for bad in [
            Behaviour { fail: 1.1, ..good.clone() },
            Behaviour { drop_ack: f64::NAN, ..good.clone() },
            Behaviour { fail: 0.6, crash: 0.6, ..good.clone() },
            Behaviour { latency: Latency::Uniform { min_ms: 2, max_ms: 1 }, ..good.clone() },
            Behaviour { latency: Latency::Spread { p50_ms: 2, p99_ms: 1 }, ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        good.check().unwrap();
    }
}
