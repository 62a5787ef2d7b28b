//! Desired state to tables: names become ids, weights become cumulative tables.
//!
//! Pure. Ids are hashes of what they name, so equal input gives equal tables, also after a restart.

pub mod tables;
