//! When a node counts as overloaded.

/// When a node counts as overloaded, and when it no longer does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OverloadPolicy {
    /// The use of a resource above this is too high, in per cent.
    pub above: f64,
    /// So many reports in a row have to be too high.
    pub reports: u32,
}

/// How far below the threshold all resources must be before the node is no longer overloaded, in points.
/// Without it, a resource at the threshold would change the node's rank with every report.
const GAP: f64 = 5.0;

/// Whether a node is overloaded by its reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overload {
    /// Reports in a row with a figure above the threshold.
    above: u32,
    overloaded: bool,
}

impl Overload {
    /// As another instance reports it.
    pub fn told(overloaded: bool) -> Self {
        Overload { above: 0, overloaded }
    }

    /// Whether the node counts as overloaded.
    pub fn is_overloaded(self) -> bool {
        self.overloaded
    }

    /// Applies a report. A report without figures changes nothing.
    pub fn report(&mut self, percents: impl IntoIterator<Item = f64>, policy: OverloadPolicy) {
        let Some(highest) = percents.into_iter().reduce(f64::max) else { return };
        self.above = if highest > policy.above { self.above.saturating_add(1) } else { 0 };
        if self.above >= policy.reports {
            self.overloaded = true;
        } else if highest <= policy.above - GAP {
            self.overloaded = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: u32, figures: &[f64]) -> bool {
        let mut overload = Overload::default();
        let policy = OverloadPolicy { above: 95.0, reports };
        figures.iter().for_each(|percent| overload.report([10.0, *percent], policy));
        overload.is_overloaded()
    }

    #[test]
    fn a_node_is_overloaded_after_so_many_high_reports_in_a_row() {
        assert!(!after(1, &[95.0]) && after(1, &[95.1]));
        assert!(!after(2, &[97.0]) && after(2, &[97.0, 96.0]));
        assert!(!after(2, &[97.0, 80.0, 97.0]), "a peak is no overload");
    }

    #[test]
    fn it_is_well_again_once_all_figures_are_clearly_lower() {
        assert!(after(1, &[99.0, 95.0, 90.1]), "around the threshold nothing changes");
        assert!(!after(1, &[99.0, 90.0]));
        assert!(!after(2, &[99.0, 99.0, 90.0, 99.0]), "and all begins anew");
    }

    #[test]
    fn a_report_without_figures_says_nothing() {
        let mut overload = Overload::told(true);
        overload.report([], OverloadPolicy { above: 95.0, reports: 1 });
        assert!(overload.is_overloaded());
    }
}
