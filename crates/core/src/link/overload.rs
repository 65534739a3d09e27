//! When a node counts as overloaded.

/// A figure for each resource of a node, in per cent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Percents {
    /// The processors.
    pub cpu: Option<f64>,
    /// The GPU.
    pub gpu: Option<f64>,
    /// The memory of the GPU.
    pub gpu_mem: Option<f64>,
    /// The memory.
    pub mem: Option<f64>,
}

impl Percents {
    fn all(&self) -> [Option<f64>; 4] {
        [self.cpu, self.gpu, self.gpu_mem, self.mem]
    }

    /// Whether no figure is there.
    pub fn is_empty(&self) -> bool {
        *self == Percents::default()
    }
}

/// The figures above which a resource is too much in use, in per cent. 0 of a single one is the one of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// Of all resources.
    pub resource: f64,
    /// Of the processors.
    pub cpu: f64,
    /// Of the GPU.
    pub gpu: f64,
    /// Of the memory of the GPU.
    pub gpu_mem: f64,
    /// Of the memory.
    pub mem: f64,
}

impl Thresholds {
    /// The same for all.
    pub fn of_all(percent: f64) -> Self {
        Thresholds { resource: percent, cpu: 0.0, gpu: 0.0, gpu_mem: 0.0, mem: 0.0 }
    }

    fn all(&self) -> [f64; 4] {
        let own = [self.cpu, self.gpu, self.gpu_mem, self.mem];
        own.map(|percent| if percent > 0.0 { percent } else { self.resource })
    }
}

/// When a node counts as overloaded, and when it no longer does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OverloadPolicy {
    /// What is too high.
    pub above: Thresholds,
    /// So many reports in a row with a figure that is too high.
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
    pub fn report(&mut self, percents: Percents, policy: OverloadPolicy) {
        let figures = percents.all().into_iter().zip(policy.above.all());
        // How far each is above its own threshold.
        let over = figures.filter_map(|(percent, threshold)| Some(percent? - threshold));
        let Some(highest) = over.reduce(f64::max) else { return };
        self.above = if highest > 0.0 { self.above.saturating_add(1) } else { 0 };
        if self.above >= policy.reports {
            self.overloaded = true;
        } else if highest <= -GAP {
            self.overloaded = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(percent: f64) -> Percents {
        Percents { cpu: Some(percent), mem: Some(10.0), ..Percents::default() }
    }

    fn after(reports: u32, figures: &[f64]) -> bool {
        let mut overload = Overload::default();
        let policy = OverloadPolicy { above: Thresholds::of_all(95.0), reports };
        figures.iter().for_each(|percent| overload.report(cpu(*percent), policy));
        overload.is_overloaded()
    }

    #[test]
    fn each_resource_has_its_own_threshold_and_its_own_way_back() {
        let above = Thresholds { gpu: 90.0, gpu_mem: 80.0, mem: 70.0, ..Thresholds::of_all(95.0) };
        let policy = OverloadPolicy { above, reports: 1 };
        let none = Percents::default();
        let resources: [(&dyn Fn(f64) -> Percents, f64); 4] = [
            (&|percent| Percents { cpu: Some(percent), ..none }, 95.0),
            (&|percent| Percents { gpu: Some(percent), ..none }, 90.0),
            (&|percent| Percents { gpu_mem: Some(percent), ..none }, 80.0),
            (&|percent| Percents { mem: Some(percent), ..none }, 70.0),
        ];
        for (report, threshold) in resources {
            let mut overload = Overload::default();
            let mut is_after = |percent: f64| {
                overload.report(report(percent), policy);
                overload.is_overloaded()
            };
            assert!(!is_after(threshold) && is_after(threshold + 0.5), "{threshold}");
            assert!(is_after(threshold - 4.0) && !is_after(threshold - 5.0), "{threshold}");
        }
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
        let policy = OverloadPolicy { above: Thresholds::of_all(95.0), reports: 1 };
        overload.report(Percents::default(), policy);
        assert!(overload.is_overloaded());
    }
}
