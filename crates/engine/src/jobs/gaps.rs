//! Nodes that miss a model (D19): the gap is always remembered; the reaction is rate limited.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::ModelId;
use lingua_core::eligibility::Route;
use lingua_store::rates::{Name, Rate, Take};
use tokio::time::Instant;

use super::Dispatcher;
use crate::nodes::{LinkCommand, NodePort, gap_name};
use crate::tasks;

impl Dispatcher {
    /// A node misses a model for this direction: it is not asked again for a while.
    pub(super) fn note_gap(self: &Arc<Self>, port: &NodePort, route: Route, model: Option<&str>) {
        let lasting = Duration::from_millis(self.shared.settings.gaps.remember_ms);
        let until = Instant::now() + lasting;
        let model = model.and_then(gap_name);
        let missing = model.as_ref().map(ToString::to_string);
        self.nodes.marks().note(port.id().clone(), route, missing, until);
        if let Some(model) = &model {
            port.post(LinkCommand::NoteGap { model: model.clone(), until });
        }
        let (this, port) = (Arc::clone(self), port.clone());
        tasks::spawn("model gap", async move {
            if let Err(error) = this.react_to_gap(&port, model, lasting).await {
                tracing::debug!(node.id = %port.id(), %error, "a model gap was not written down");
            }
        });
    }

    async fn react_to_gap(
        &self,
        port: &NodePort,
        model: Option<ModelId>,
        lasting: Duration,
    ) -> lingua_store::Result<()> {
        let policy = self.shared.settings.gaps;
        let store = &self.shared.store;
        if let Some(model) = &model {
            store.nodes.note_gap(port.id(), model, lasting).await?;
        }
        let rate = Rate {
            interval: Duration::from_millis(policy.report_interval_ms),
            burst: policy.report_burst,
        };
        let flood = store.rates.take(&Name::new(format!("gap:{}", port.id()))?, rate).await?;
        if let Take::Limited { .. } = flood {
            // A node that reports gaps without end counts as failing, and gets no jobs for a while.
            self.shared.metrics.gap("limited");
            port.post(LinkCommand::Fault);
            return Ok(());
        }
        let Some(model) = model else {
            self.shared.metrics.gap("unnamed");
            return Ok(());
        };
        let window = Duration::from_millis(policy.reaction_window_ms);
        let first = store.rates.first(&Name::new(format!("model:{model}"))?, window).await?;
        // Each node that misses it is told once; people are told once of all of them.
        let told = Name::new(format!("model:{model}:{}", port.id()))?;
        if store.rates.first(&told, window).await? {
            let reason = format!("model {model} is not available");
            port.post(LinkCommand::Update { reason });
        }
        if first {
            self.shared.metrics.gap("reacted");
            tracing::warn!(node.id = %port.id(), model = %model, "a node misses a model");
        } else {
            self.shared.metrics.gap("debounced");
        }
        Ok(())
    }
}
