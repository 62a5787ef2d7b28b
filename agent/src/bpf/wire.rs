//! The bridge between border types and aya's `Pod`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A border type as bytes of a map.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<T>(pub(super) T);

// SAFETY: `Wire` is transparent, and zerocopy proves of `T` that it has no padding (IntoBytes) and
// that every byte pattern is a value (FromBytes): what `Pod` asks for.
unsafe impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> aya::Pod for Wire<T> {}
