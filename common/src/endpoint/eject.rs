//! Passive ejection: an endpoint whose connects fail is skipped for a growing, bounded time.
//!
//! The state lives in kernel maps and is changed by programs on several CPUs at once without locks.
//! Lost updates of `failures` are harmless; the number of ejected endpoints of a backend is kept
//! exact by changing it only together with a successful compare-and-swap of `ejected_until_ns`.

use crate::abi::{settings::Ejection, tables::EndpointState};

/// How long an endpoint may be chosen without a SYN leaving before it counts as unreachable.
///
/// Between the choice and the SYN lie microseconds, except when there is no route: then the SYN
/// never leaves and no later hook sees the connect. Several such choices over this time are a
/// failure; connects that are merely on their way are not.
pub const UNSENT_NS: u64 = 100_000_000;

/// Whether the endpoint is ejected at `now_ns`.
#[inline(always)]
#[must_use]
pub const fn is_ejected(state: &EndpointState, now_ns: u64) -> bool {
    state.ejected_until_ns > now_ns
}

/// Whether ejections of a backend are honoured: never when more than half of it would be skipped.
#[inline(always)]
#[must_use]
pub const fn may_skip(ejected: u64, count: u32) -> bool {
    ejected > 0 && ejected * 2 <= count as u64
}

/// Whether one more endpoint of a backend may be ejected: at most half of them ever are.
#[inline(always)]
#[must_use]
pub const fn may_eject(ejected: u64, count: u32) -> bool {
    (ejected + 1) * 2 <= count as u64
}

/// What a connect failure does to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AfterFailure {
    /// The new value of `failures`.
    pub failures: u64,
    /// The new value of `first_failure_ns`.
    pub first_failure_ns: u64,
    /// Until when to eject it, if the failures are enough.
    pub eject_until_ns: Option<u64>,
}

/// Returns what one more connect failure at `now_ns` does.
#[inline(always)]
#[must_use]
pub const fn after_failure(state: &EndpointState, now_ns: u64, rule: &Ejection) -> AfterFailure {
    let fresh = state.failures == 0 || now_ns.saturating_sub(state.first_failure_ns) > rule.window_ns;
    let (failures, first_failure_ns) = if fresh { (1, now_ns) } else { (state.failures + 1, state.first_failure_ns) };
    // An endpoint that comes back from an ejection is on probation: one failure ejects it again.
    let needed = if state.ejections == 0 { rule.failures } else { 1 };
    let enough = rule.failures != 0 && failures >= needed && !is_ejected(state, now_ns);
    let eject_until_ns = if enough { Some(now_ns + duration_ns(state.ejections, rule)) } else { None };
    AfterFailure { failures, first_failure_ns, eject_until_ns }
}

/// Whether the choices of an endpoint that sent no SYN amount to a failure at `now_ns`.
#[inline(always)]
#[must_use]
pub const fn unsent_is_failure(state: &EndpointState, now_ns: u64, rule: &Ejection) -> bool {
    rule.failures != 0
        && state.unsent >= rule.failures
        && now_ns.saturating_sub(state.first_unsent_ns) >= UNSENT_NS
        && !is_ejected(state, now_ns)
}

/// Returns how long ejection number `ejections` (from 0) lasts, nanoseconds.
#[inline(always)]
#[must_use]
pub const fn duration_ns(ejections: u64, rule: &Ejection) -> u64 {
    let shift = if ejections > 20 { 20 } else { ejections };
    let duration = rule.base_ns << shift;
    if duration > rule.max_ns { rule.max_ns } else { duration }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Ejection = Ejection { failures: 3, window_ns: 10_000, base_ns: 1_000, max_ns: 5_000 };

    fn fail(state: &mut EndpointState, now_ns: u64) -> Option<u64> {
        let after = after_failure(state, now_ns, &RULE);
        state.failures = after.failures;
        state.first_failure_ns = after.first_failure_ns;
        if let Some(until) = after.eject_until_ns {
            state.ejected_until_ns = until;
            state.ejections += 1;
            state.failures = 0;
        }
        after.eject_until_ns
    }

    #[test]
    fn k_failures_in_a_row_within_the_window_eject() {
        let mut state = EndpointState::default();
        assert_eq!(fail(&mut state, 100), None);
        assert_eq!(fail(&mut state, 200), None);
        assert_eq!(fail(&mut state, 300), Some(1_300));
        assert!(is_ejected(&state, 1_299));
        assert!(!is_ejected(&state, 1_300));
    }

    #[test]
    fn failures_outside_of_the_window_begin_a_new_row() {
        let mut state = EndpointState::default();
        assert_eq!(fail(&mut state, 100), None);
        assert_eq!(fail(&mut state, 200), None);
        assert_eq!(fail(&mut state, 10_200), None);
        assert_eq!(state.failures, 1);
    }

    #[test]
    fn each_ejection_in_a_row_lasts_longer_up_to_the_bound() {
        let durations: [u64; 4] = core::array::from_fn(|n| duration_ns(n as u64, &RULE));
        assert_eq!(durations, [1_000, 2_000, 4_000, 5_000]);
        assert_eq!(duration_ns(u64::MAX, &RULE), 5_000);
    }

    #[test]
    fn after_an_ejection_one_failure_ejects_again_and_longer() {
        let mut state = EndpointState::default();
        for now in [100, 200, 300] {
            fail(&mut state, now);
        }
        assert_eq!(fail(&mut state, 1_400), Some(3_400));
    }

    #[test]
    fn a_failure_while_ejected_changes_nothing() {
        let mut state = EndpointState::default();
        for now in [100, 200, 300] {
            fail(&mut state, now);
        }
        assert_eq!(fail(&mut state, 400), None);
    }

    #[test]
    fn zero_failures_switch_ejection_off() {
        let rule = Ejection { failures: 0, ..RULE };
        let state = EndpointState { failures: 1_000, unsent: 1_000, ..EndpointState::default() };
        assert_eq!(after_failure(&state, 5, &rule).eject_until_ns, None);
        assert!(!unsent_is_failure(&state, u64::MAX, &rule));
    }

    #[test]
    fn never_more_than_half_of_a_backend_is_ejected() {
        for count in 0..20 {
            let mut ejected = 0;
            while may_eject(ejected, count) {
                ejected += 1;
            }
            assert_eq!(ejected, u64::from(count / 2));
            assert_eq!(may_skip(ejected, count), count >= 2);
            assert!(!may_skip(u64::from(count / 2) + 1, count));
        }
    }

    #[test]
    fn connects_on_their_way_are_not_a_failure() {
        let state = EndpointState { unsent: 100, first_unsent_ns: 1_000, ..EndpointState::default() };
        assert!(!unsent_is_failure(&state, 1_000 + UNSENT_NS - 1, &RULE));
        assert!(unsent_is_failure(&state, 1_000 + UNSENT_NS, &RULE));
    }
}
