//! A backend in one address family: its usable endpoints, its ring and its id.

use super::{Compiler, id, ring};
use crate::ir::{self, BackendKey};
use weir_common::{
    abi::{
        ids::BackendId,
        tables::{Backend, Endpoint, EndpointReadiness, RingValue, SlotKey},
    },
    addr::Family,
    reason::Reason,
};

impl Compiler<'_> {
    /// Writes a backend's tables.
    ///
    /// # Errors
    ///
    /// The reason to reject, if something better than "no endpoints" is known.
    pub(super) fn backend(&mut self, key: &BackendKey, family: Family) -> Result<BackendId, Reason> {
        let state = id::backend_state(key, family);
        let wanted = self.desired.backends.get(key);
        let endpoints: Vec<Endpoint> = wanted
            .into_iter()
            .flat_map(|backend| usable(backend, family))
            .map(|endpoint| {
                let endpoint_id = id::endpoint(state, endpoint.address, endpoint.port);
                Endpoint::new(endpoint_id, endpoint.address, endpoint.port, endpoint.readiness)
            })
            .collect();
        if endpoints.is_empty()
            && let Some(reason) = wanted.and_then(|backend| backend.empty)
        {
            return Err(reason);
        }
        let ring = if self.ringed.contains(key) && !endpoints.is_empty() { ring::BUCKETS } else { 0 };
        let backend = id::backend(state, ring, &endpoints);
        self.out.names.backends.insert(state, key.clone());
        let value = Backend { state, count: endpoints.len() as u32, ring };
        if self.out.tables.backends.insert(backend, value).is_some() {
            return Ok(backend);
        }
        for (slot, endpoint) in (0..).zip(&endpoints) {
            self.out.endpoints.push((SlotKey::new(backend, slot), *endpoint));
        }
        if ring > 0 {
            let ids: Vec<_> = endpoints.iter().map(|endpoint| endpoint.id).collect();
            for (bucket, slot) in (0..).zip(ring::ring(&ids)) {
                self.out.tables.rings.insert(SlotKey::new(backend, bucket), RingValue::new(slot));
            }
        }
        Ok(backend)
    }
}

/// The ready endpoints of a family; if there are none, those that still serve while they terminate.
fn usable(backend: &ir::Backend, family: Family) -> impl Iterator<Item = &ir::Endpoint> {
    let of_family = move |endpoint: &&ir::Endpoint| endpoint.address.family() == family;
    let readiness = if backend.endpoints.iter().filter(of_family).any(|e| e.readiness == EndpointReadiness::Ready) {
        EndpointReadiness::Ready
    } else {
        EndpointReadiness::ServingTerminating
    };
    backend.endpoints.iter().filter(of_family).filter(move |endpoint| endpoint.readiness == readiness)
}
