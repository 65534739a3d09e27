//! Which job a caller's request id stands for.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{JobId, RequestId, TenantId};

use crate::error::Result;

/// Request ids of HTTP callers, each bound to a job: the same id gets the same job on any instance.
#[async_trait]
pub trait RequestIds: Send + Sync {
    /// Binds a request's id to a job for `keep_for`, or says which job it is bound to.
    async fn claim(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: &JobId,
        keep_for: Duration,
    ) -> Result<JobId>;

    /// Frees a request's id that is bound to this job, because nothing came of it. Bound to another job
    /// it stays as it is.
    async fn release(&self, tenant: &TenantId, request: &RequestId, job: &JobId) -> Result<()>;
}
