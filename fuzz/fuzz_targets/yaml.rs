//! Reads any text as a YAML file. Run with `cargo +nightly fuzz run yaml agent/testdata/fuzz/yaml`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    weir::provider::file::read_text(text);
});
