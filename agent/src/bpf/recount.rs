//! Counts the ejected endpoints of backends anew after endpoints are gone.
//!
//! The programs keep the count exact for endpoints that stay. One that is removed while it is ejected
//! would be counted for ever, and in the end no other one could be skipped.

use super::{
    Error,
    found::entries,
    maps::{Maps, failed},
    wire::Wire,
};
use crate::compile::tables::Tables;
use std::collections::{BTreeMap, BTreeSet};
use weir_common::abi::{
    ids::{BackendStateId, EndpointId},
    tables::{BackendState, EndpointState},
};

/// Corrects the counts of backends that have any ejected endpoint.
pub(super) fn recount(maps: &mut Maps, tables: &Tables) -> Result<(), Error> {
    let mut states = entries(&maps.backend_states, "BACKEND_STATES")?;
    states.retain(|_, state| state.ejected > 0);
    if states.is_empty() {
        return Ok(());
    }
    let endpoints = entries(&maps.endpoint_states, "ENDPOINT_STATES")?;
    for (id, state) in corrections(&states, &endpoints, tables) {
        maps.backend_states.insert(Wire(id), Wire(state), 0).map_err(|error| failed("BACKEND_STATES", error))?;
    }
    Ok(())
}

/// Returns the states whose count is not that of their ejected endpoints, corrected.
fn corrections(
    states: &BTreeMap<BackendStateId, BackendState>,
    endpoints: &BTreeMap<EndpointId, EndpointState>,
    tables: &Tables,
) -> BTreeMap<BackendStateId, BackendState> {
    // An endpoint may stand in two lists of one backend, with and without a ring.
    let ejected: BTreeSet<(BackendStateId, EndpointId)> = tables
        .endpoints_of_backends()
        .filter(|(endpoint, backend)| {
            states.contains_key(backend) && endpoints.get(&endpoint.id).is_some_and(|state| state.ejected_until_ns != 0)
        })
        .map(|(endpoint, backend)| (backend, endpoint.id))
        .collect();
    states
        .iter()
        .map(|(id, state)| {
            let count = ejected.iter().filter(|(backend, _)| backend == id).count() as u64;
            (*id, BackendState { ejected: count, ..*state })
        })
        .filter(|(id, state)| states.get(id) != Some(state))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_common::{
        abi::{
            ids::BackendId,
            tables::{Backend, Endpoint, EndpointReadiness, SlotKey},
        },
        addr::Address,
    };

    #[test]
    fn an_endpoint_that_went_while_ejected_is_not_counted_any_more() {
        let mut tables = Tables::default();
        let backend = BackendStateId(1);
        tables.backends.insert(BackendId(1), Backend { state: backend, count: 2, ring: 0 });
        for slot in 0..2 {
            let address = Address::from_v4_octets([10, 0, 0, slot as u8]);
            let endpoint = Endpoint::new(EndpointId(slot.into()), address, 80, EndpointReadiness::Ready);
            tables.endpoints.insert(SlotKey::new(BackendId(1), slot), endpoint);
        }
        let ill = EndpointState { ejected_until_ns: 5, ..EndpointState::default() };
        // Endpoint 9 is gone; endpoint 1 is still ejected.
        let endpoints = BTreeMap::from([(EndpointId(0), EndpointState::default()), (EndpointId(1), ill)]);
        let states = BTreeMap::from([(backend, BackendState { ejected: 2, turn: 7 })]);
        let corrected = corrections(&states, &endpoints, &tables);
        assert_eq!(corrected, BTreeMap::from([(backend, BackendState { ejected: 1, turn: 7 })]));
        assert!(corrections(&corrected, &endpoints, &tables).is_empty());
    }
}
