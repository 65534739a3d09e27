//! Nodes that miss a model (D19): the fact is always kept, the costly reaction happens once.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::ModelId;
use lingua_core::eligibility::Route;
use lingua_store::once::{Name, Rate, Take};
use tokio::time::Instant;

use super::Dispatcher;
use crate::job::ToNode;
use crate::nodes::{Fault, NodeState, gap_name};
use crate::tasks;

impl Dispatcher {
    /// A node misses a model for this direction: it is not asked again for a while.
    pub(super) fn note_gap(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        route: Route,
        model: Option<&str>,
    ) {
        let policy = self.shared.settings.gaps;
        let lasting = Duration::from_millis(policy.remember_ms);
        let until = Instant::now() + lasting;
        let model = model.and_then(gap_name);
        let missing = model.as_ref().map(ToString::to_string);
        self.nodes.marks().note(node.id.clone(), route, missing, until);
        if let Some(model) = &model {
            let mut inner = node.lock();
            inner.gaps.retain(|(known, _)| known != model);
            if inner.gaps.len() < lingua_store::nodes::MAX_GAPS_PER_NODE {
                inner.gaps.push((model.clone(), until));
            }
            drop(inner);
            self.nodes.refresh(node);
        }
        let (this, node) = (Arc::clone(self), Arc::clone(node));
        tasks::spawn("model gap", async move {
            if let Err(error) = this.react_to_gap(&node, model, lasting).await {
                tracing::debug!(node.id = %node.id, %error, "a model gap was not written down");
            }
        });
    }

    async fn react_to_gap(
        &self,
        node: &NodeState,
        model: Option<ModelId>,
        lasting: Duration,
    ) -> lingua_store::Result<()> {
        let policy = self.shared.settings.gaps;
        let store = &self.shared.store;
        if let Some(model) = &model {
            store.nodes.note_gap(&node.id, model, lasting).await?;
        }
        let rate = Rate {
            interval: Duration::from_millis(policy.report_interval_ms),
            burst: policy.report_burst,
        };
        let flood = store.once.take(&Name::new(format!("gap:{}", node.id))?, rate).await?;
        if let Take::Limited { .. } = flood {
            // A node that floods takes jobs only to refuse them: it is left alone for a while.
            self.shared.metrics.gap("limited");
            node.lock().failure(Instant::now(), Fault::Job);
            self.nodes.refresh(node);
            return Ok(());
        }
        let Some(model) = model else {
            self.shared.metrics.gap("unnamed");
            return Ok(());
        };
        let window = Duration::from_millis(policy.reaction_window_ms);
        if store.once.first(&Name::new(format!("model:{model}"))?, window).await? {
            self.shared.metrics.gap("reacted");
            tracing::warn!(node.id = %node.id, model = %model, "a node misses a model");
            let reason = Some(format!("model {model} is not available"));
            node.tell(ToNode::Control { command: "update", reason });
        } else {
            self.shared.metrics.gap("debounced");
        }
        Ok(())
    }
}
