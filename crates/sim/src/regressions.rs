//! Worlds in which a promise was once broken: each line of `regressions.txt` is a seed and the faults that it takes.

use crate::plan::Plan;

/// The lines.
const KEPT: &str = include_str!("../regressions.txt");

/// One line: a seed, and the places of the faults in its plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regression {
    /// The seed.
    pub seed: u64,
    /// The faults; the others are left out.
    pub faults: Vec<usize>,
}

impl Regression {
    /// Its world.
    pub fn plan(&self) -> Plan {
        Plan::of(self.seed).with_faults(&self.faults)
    }

    /// The line for the file.
    pub fn line(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        format!("{}: {}", self.seed, faults.join(" ")).trim_end().to_owned()
    }

    fn read(line: &str) -> Option<Self> {
        let (seed, faults) = line.split_once(':')?;
        let faults = faults.split_whitespace().map(|at| at.parse().ok());
        Some(Regression { seed: seed.trim().parse().ok()?, faults: faults.collect::<Option<_>>()? })
    }
}

/// All that are kept.
pub fn all() -> Vec<Regression> {
    let lines = KEPT.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let read = |line| Regression::read(line).unwrap_or_else(|| panic!("regressions.txt: {line}"));
    lines.filter(|line| !line.is_empty()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_printed() {
        for regression in [(7, vec![0, 3]), (8, vec![])] {
            let regression = Regression { seed: regression.0, faults: regression.1 };
            assert_eq!(Regression::read(&regression.line()), Some(regression));
        }
        assert_eq!(Regression::read("7 0 3"), None);
        all();
    }
}
