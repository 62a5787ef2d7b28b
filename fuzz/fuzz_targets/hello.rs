//! Reads any bytes as a ClientHello. Run with `cargo +nightly fuzz run hello common/testdata/fuzz/hello`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../common/tests/hello/laws.rs"]
mod laws;

fuzz_target!(|stream: &[u8]| {
    // Every prefix of what is short, and some of what is long.
    laws::hold(stream, (0..stream.len()).step_by(1 + stream.len() / 256));
});
