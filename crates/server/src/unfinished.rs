//! Memory for bytes that are not yet a message: budgets of an address, of a tenant and in all.
//!
//! What somebody has begun to send and not ended, the body of a request or a message on a socket, takes
//! memory for as long as they like. Each such message has an [`Account`]; what it holds counts against
//! three budgets until it is whole or given up.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use lingua_core::TenantId;
use lingua_engine::metrics::{Bytes, Metrics};
use parking_lot::Mutex;

use crate::config::Limits;

/// A message of so few bytes is not counted: a connection has a buffer of that size anyway, and how
/// many connections there are is bounded.
pub(crate) const NOT_COUNTED: usize = 4_096;

/// The budgets, and what of them is used.
pub(crate) struct Budget {
    most: Most,
    used: Mutex<Used>,
    shown: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Most {
    total: usize,
    per_address: usize,
    per_tenant: usize,
}

/// A budget that has no room left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    Total,
    Address,
    Tenant,
}

impl Full {
    /// The option that says how large it is.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Full::Total => "unfinished_bytes",
            Full::Address => "unfinished_bytes_per_address",
            Full::Tenant => "unfinished_bytes_per_tenant",
        }
    }
}

impl Budget {
    pub(crate) fn new(limits: &Limits, metrics: &Metrics) -> Arc<Self> {
        let most = Most {
            total: limits.unfinished_bytes,
            per_address: limits.unfinished_bytes_per_address,
            per_tenant: limits.unfinished_bytes_per_tenant,
        };
        Arc::new(Budget { most, used: Mutex::default(), shown: metrics.unfinished_bytes() })
    }

    /// An account of somebody at this address, who holds nothing yet.
    pub(crate) fn account(self: &Arc<Self>, address: IpAddr) -> Account {
        Account { budget: Arc::clone(self), address, tenant: None, held: 0 }
    }
}

/// What one unfinished message holds; it is given back when this value is dropped.
pub(crate) struct Account {
    budget: Arc<Budget>,
    address: IpAddr,
    tenant: Option<TenantId>,
    held: usize,
}

impl Account {
    /// It is known whose it is. What it held does not count any more; returns how much that was.
    pub(crate) fn belongs_to(&mut self, tenant: Option<TenantId>) -> usize {
        let held = self.held;
        self.release();
        self.tenant = tenant;
        held
    }

    /// Holds so many bytes from now on, instead of what it held. If there is no room for them it holds
    /// what it did.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = if bytes > NOT_COUNTED { bytes } else { 0 };
        if bytes == self.held {
            return Ok(());
        }
        let mut used = self.budget.used.lock();
        used.change(self.budget.most, self.address, self.tenant.as_ref(), self.held, bytes)?;
        self.budget.shown.set(used.total);
        self.held = bytes;
        Ok(())
    }

    /// Holds nothing any more.
    pub(crate) fn release(&mut self) {
        let less = self.hold(0);
        debug_assert!(less.is_ok(), "there is always room for less");
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.release();
    }
}

/// What is used. Who holds nothing is not in it.
#[derive(Default, Debug)]
struct Used {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    tenants: HashMap<TenantId, usize>,
}

impl Used {
    /// Counts `to` bytes of somebody where `from` were counted; nothing changes if there is no room.
    fn change(
        &mut self,
        most: Most,
        address: IpAddr,
        tenant: Option<&TenantId>,
        from: usize,
        to: usize,
    ) -> Result<(), Full> {
        let after = |used: usize| used.saturating_sub(from).saturating_add(to);
        let of_address = after(self.addresses.get(&address).copied().unwrap_or(0));
        let of_tenant = tenant.map(|tenant| after(self.tenants.get(tenant).copied().unwrap_or(0)));
        let total = after(self.total);
        if to > from {
            // The narrowest first: it says most about who is at fault.
            if of_tenant.is_some_and(|bytes| bytes > most.per_tenant) {
                return Err(Full::Tenant);
            }
            if of_address > most.per_address {
                return Err(Full::Address);
            }
            if total > most.total {
                return Err(Full::Total);
            }
        }
        self.total = total;
        put(&mut self.addresses, address, of_address);
        if let Some((tenant, bytes)) = tenant.zip(of_tenant) {
            put(&mut self.tenants, tenant.clone(), bytes);
        }
        Ok(())
    }
}

fn put<K: Eq + Hash>(used: &mut HashMap<K, usize>, key: K, bytes: usize) {
    match bytes {
        0 => used.remove(&key),
        bytes => used.insert(key, bytes),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<Budget> {
        let most = Most { total: 10 * MIB, per_address: 4 * MIB, per_tenant: 6 * MIB };
        let shown = Metrics::default().unfinished_bytes();
        Arc::new(Budget { most, used: Mutex::default(), shown })
    }

    fn account(budget: &Arc<Budget>, host: u8, tenant: Option<&str>) -> Account {
        let mut account = budget.account(IpAddr::from([127, 0, 0, host]));
        account.belongs_to(tenant.map(|tenant| TenantId::new(tenant).unwrap()));
        account
    }

    #[test]
    fn an_address_a_tenant_and_all_together_have_so_much_and_no_more() {
        let budget = budget();
        let mut stranger = account(&budget, 1, None);
        assert_eq!(stranger.hold(5 * MIB), Err(Full::Address));
        assert_eq!(stranger.hold(4 * MIB), Ok(()));
        assert_eq!(account(&budget, 1, None).hold(MIB), Err(Full::Address));
        let mut one = account(&budget, 2, Some("acme"));
        let mut two = account(&budget, 3, Some("acme"));
        assert_eq!((one.hold(4 * MIB), two.hold(3 * MIB)), (Ok(()), Err(Full::Tenant)));
        assert_eq!(two.hold(2 * MIB), Ok(()), "what is refused is not counted");
        let mut last = account(&budget, 4, Some("other"));
        assert_eq!(last.hold(MIB), Err(Full::Total));
        drop(stranger);
        assert_eq!(last.hold(4 * MIB), Ok(()));
    }

    #[test]
    fn all_of_it_is_given_back_and_nobody_is_remembered() {
        let budget = budget();
        let mut accounts: Vec<Account> =
            (1..=4).map(|host| account(&budget, host, Some("acme"))).collect();
        for account in &mut accounts {
            account.hold(MIB).unwrap();
            account.hold(MIB / 2).unwrap();
        }
        assert_eq!(budget.used.lock().total, 2 * MIB);
        accounts[0].release();
        accounts[1].belongs_to(None);
        drop(accounts);
        let used = budget.used.lock();
        assert_eq!((used.total, used.addresses.len(), used.tenants.len()), (0, 0, 0));
        assert_eq!(budget.shown.get(), 0);
    }

    #[test]
    fn what_fits_into_a_connections_own_buffer_is_not_counted() {
        let budget = budget();
        let mut small = account(&budget, 1, Some("acme"));
        small.hold(NOT_COUNTED).unwrap();
        assert_eq!(budget.used.lock().total, 0);
        small.hold(NOT_COUNTED + 1).unwrap();
        assert_eq!(budget.used.lock().total, NOT_COUNTED + 1);
    }
}
