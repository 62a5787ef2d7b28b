//! Harness of the tests that need a kernel.
