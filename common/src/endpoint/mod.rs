//! Endpoints: one chosen inside a leg, and skipped for a while when its connects fail.

pub mod choose;
pub mod eject;
