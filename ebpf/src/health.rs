//! The state of endpoints: open connections, failures, ejection. The rules are in
//! `weir_common::endpoint::eject`; here they are applied to map values that all CPUs share.

use crate::{
    atomic, count,
    maps::{BACKEND_STATES, ENDPOINT_STATES, SETTINGS},
};
use weir_common::{
    abi::{
        ids::{BackendStateId, EndpointId, StatsId},
        socket::SocketRecord,
        stats::{Counter, EventKind},
        tables::EndpointState,
    },
    decide::Forward,
    endpoint::eject::{after_failure, duration_ns, may_eject, unsent_is_failure},
};

/// Who is concerned by a change.
#[derive(Clone, Copy)]
struct Subject {
    backend: BackendStateId,
    n_endpoints: u32,
    endpoint: EndpointId,
    leg: StatsId,
}

impl From<&SocketRecord> for Subject {
    #[inline(always)]
    fn from(record: &SocketRecord) -> Self {
        Self {
            backend: record.backend,
            n_endpoints: record.n_endpoints,
            endpoint: record.endpoint,
            leg: record.leg_stats,
        }
    }
}

/// The connect hook chose an endpoint. If choices do not lead to a SYN for a while, there is no way
/// to it from here, and that counts as its failure.
#[inline(always)]
pub(crate) fn chosen(forward: &Forward<'_>, now: u64) {
    let Some(state) = forward.state else { return };
    let state = core::ptr::from_ref(state).cast_mut();
    // SAFETY: a live map value. Races of CPUs only blur when the first unsent choice was.
    let before = unsafe {
        if (*state).unsent == 0 {
            (*state).first_unsent_ns = now;
        }
        atomic::fetch_add(&raw mut (*state).unsent, 1);
        *state
    };
    let Some(settings) = SETTINGS.get(0) else { return };
    if unsent_is_failure(&before, now, &settings.ejection) {
        // SAFETY: as above.
        unsafe { (*state).unsent = 0 };
        let subject = Subject {
            backend: forward.backend,
            n_endpoints: forward.n_endpoints,
            endpoint: forward.endpoint.id,
            leg: forward.leg,
        };
        eject(subject, state, &before, now + duration_ns(before.ejections, &settings.ejection));
    }
}

/// Whether anything speaks against the endpoint that was chosen.
#[inline(always)]
pub(crate) fn is_suspect(forward: &Forward<'_>) -> bool {
    forward.state.is_some_and(|state| state.failures != 0 || state.ejected_until_ns != 0)
}

/// A SYN left.
#[inline(always)]
pub(crate) fn syn_sent(record: &SocketRecord) {
    let Some(state) = ENDPOINT_STATES.get_ptr_mut(record.endpoint) else { return };
    // SAFETY: a live map value.
    unsafe {
        (*state).unsent = 0;
        atomic::fetch_add(&raw mut (*state).open, 1);
    }
}

/// The handshake is through: the endpoint is well.
#[inline(always)]
pub(crate) fn opened(record: &SocketRecord) {
    if record.suspect == 0 {
        return;
    }
    let Some(state) = ENDPOINT_STATES.get_ptr_mut(record.endpoint) else { return };
    // SAFETY: a live map value. The stores are skipped in the normal case, so that CPUs do not take
    // the cache line from each other.
    unsafe {
        if (*state).failures != 0 {
            (*state).failures = 0;
        }
        let until = (*state).ejected_until_ns;
        if until != 0 && atomic::replace(&raw mut (*state).ejected_until_ns, until, 0) {
            (*state).ejections = 0;
            if let Some(backend) = BACKEND_STATES.get_ptr_mut(record.backend) {
                atomic::fetch_add(&raw mut (*backend).ejected, u64::MAX);
            }
        }
    }
}

/// The connect failed in a way that speaks against the endpoint.
#[inline(always)]
pub(crate) fn failed(record: &SocketRecord, now: u64) {
    let Some(state) = ENDPOINT_STATES.get_ptr_mut(record.endpoint) else { return };
    let Some(settings) = SETTINGS.get(0) else { return };
    // SAFETY: a live map value. A race of two CPUs may lose one failure of a row: harmless.
    let before = unsafe { *state };
    let after = after_failure(&before, now, &settings.ejection);
    // SAFETY: as above.
    unsafe {
        (*state).failures = after.failures;
        (*state).first_failure_ns = after.first_failure_ns;
    }
    if let Some(until) = after.eject_until_ns {
        eject(record.into(), state, &before, until);
    }
}

/// A connection or an attempt is over.
#[inline(always)]
pub(crate) fn closed(record: &SocketRecord) {
    let Some(state) = ENDPOINT_STATES.get_ptr_mut(record.endpoint) else { return };
    // SAFETY: a live map value. `open` may be 0 when the endpoint went and came back meanwhile.
    unsafe {
        if (*state).open > 0 {
            atomic::fetch_add(&raw mut (*state).open, u64::MAX);
        }
    }
}

/// Ejects an endpoint, unless half of its backend is ejected already.
#[inline(always)]
fn eject(subject: Subject, state: *mut EndpointState, before: &EndpointState, until: u64) {
    let Some(shared) = BACKEND_STATES.get_ptr_mut(subject.backend) else { return };
    // An ejection that ran out without a success since is still counted.
    let counted = before.ejected_until_ns != 0;
    // SAFETY: live map values. The place among the ejected is taken before the ejection and given
    // back if another CPU was faster, so their number is never above half.
    unsafe {
        if !counted && !may_eject(atomic::fetch_add(&raw mut (*shared).ejected, 1), subject.n_endpoints) {
            atomic::fetch_add(&raw mut (*shared).ejected, u64::MAX);
            return;
        }
        if !atomic::replace(&raw mut (*state).ejected_until_ns, before.ejected_until_ns, until) {
            if !counted {
                atomic::fetch_add(&raw mut (*shared).ejected, u64::MAX);
            }
            return;
        }
        (*state).ejections = before.ejections + 1;
        (*state).failures = 0;
    }
    count::event(Counter::Ejected);
    count::tell(EventKind::Ejected, subject.leg, subject.endpoint.0);
}
