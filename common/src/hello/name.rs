//! Which server names are valid, and their one spelling.
//!
//! A name is what RFC 6066, 3, allows: an ASCII host name, without a dot at its end, and no IP
//! address. It consists of labels of 1..=63 letters, digits, `-` and `_`, 1..=253 bytes in all. The
//! last label is not of digits only, so that no IPv4 address is a name (IPv6 ones have colons).
//! Letters are lower-cased. An A-label (`xn--`) is a label like any other.

/// Longest name, in bytes (RFC 1035, 2.3.4, without the root label).
pub const MAX_NAME: usize = 253;

/// Longest label, in bytes (RFC 1035, 2.3.4).
const MAX_LABEL: u32 = 63;

/// A server name that is none: it matches nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidName;

/// Checks a name of the host's side, in any case.
///
/// # Errors
///
/// [`InvalidName`], by the rules of this module.
pub fn check_name(name: &[u8]) -> Result<(), InvalidName> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(InvalidName);
    }
    let mut check = Check::new();
    for byte in name.iter().rev() {
        check.next(*byte);
    }
    if check.is_valid() { Ok(()) } else { Err(InvalidName) }
}

/// Checks a name from its last byte to its first.
///
/// All is arithmetic: for the verifier each byte is one path, where branches would double them. Only
/// flags are kept, for the same reason.
#[derive(Clone, Copy)]
pub(super) struct Check {
    /// Bytes of the label so far.
    label: u32,
    /// [`FAULT`] after a fault; [`DOT`] after the last label; [`NO_DIGIT`] if that has a letter.
    flags: u32,
}

impl Check {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { label: 0, flags: 0 }
    }

    /// Takes the byte before the last one, and returns it in lower case.
    #[inline(always)]
    pub(super) fn next(&mut self, byte: u8) -> u8 {
        let class = u32::from(CLASSES[byte as usize]);
        let dot = (class & DOT) / DOT;
        // An empty label before a dot, or a label that grows too long, makes bit 31.
        let empty = self.label.wrapping_sub(1) & (0u32.wrapping_sub(dot));
        self.label = (self.label + 1) * (1 - dot);
        let long = MAX_LABEL.wrapping_sub(self.label);
        let fault = ((empty | long) >> 31) * FAULT;
        // Letters count in the last label only, which is the one before any dot.
        let last = !(self.flags * (NO_DIGIT / DOT)) | !NO_DIGIT;
        self.flags |= (class & (DOT | FAULT | NO_DIGIT) & last) | fault;
        class as u8
    }

    /// Whether all bytes together are a name.
    #[inline(always)]
    pub(super) fn is_valid(&self) -> bool {
        self.label != 0 && self.flags & (FAULT | NO_DIGIT) == NO_DIGIT
    }
}

/// The byte is a dot.
const DOT: u32 = 1 << 8;
/// The byte is one of a label, but no digit.
const NO_DIGIT: u32 = 1 << 9;
/// The byte is not one of a name.
const FAULT: u32 = 1 << 10;

/// What a byte is, above its lower-case form.
static CLASSES: [u16; 256] = {
    let mut classes = [FAULT as u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let lower = (byte as u8).to_ascii_lowercase();
        let class = match lower {
            b'.' => DOT,
            b'0'..=b'9' => 0,
            b'a'..=b'z' | b'-' | b'_' => NO_DIGIT,
            _ => FAULT,
        };
        classes[byte] = class as u16 | lower as u16;
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{format, string::String, vec::Vec};

    /// The rules of this module, as one would say them.
    fn is_name(name: &str) -> bool {
        let labels: Vec<&str> = name.split('.').collect();
        name.len() <= 253
            && labels.iter().all(|label| {
                (1..=63).contains(&label.len())
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            })
            && labels.last().is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
    }

    fn valid(name: &str) -> bool {
        check_name(name.as_bytes()).is_ok()
    }

    #[test]
    fn labels_have_1_to_63_bytes() {
        let long = "a".repeat(63);
        assert!(valid(&format!("{long}.{long}")));
        assert!(!valid(&format!("{long}a.example")));
        assert!(!valid(&format!("www.{long}a")));
        for empty in ["", ".", ".example", "www..example", "example."] {
            assert!(!valid(empty), "{empty:?}");
        }
    }

    #[test]
    fn names_have_at_most_253_bytes() {
        let labels = format!("{0}.{0}.{0}.", "a".repeat(63));
        assert!(valid(&format!("{labels}{}", "a".repeat(61))));
        assert!(!valid(&format!("{labels}{}", "a".repeat(62))));
    }

    #[test]
    fn ip_addresses_are_no_names() {
        for address in ["10.0.0.1", "::1", "[::1]", "2001:db8::1", "1", "host.1"] {
            assert!(!valid(address), "{address}");
        }
        assert!(valid("10.0.0.1.example"));
        assert!(valid("1a"));
        assert!(valid("7.a1"));
    }

    #[test]
    fn names_are_ascii_letters_digits_hyphen_and_underscore() {
        assert!(valid("_dns.xn--Bcher-kva.EXAMPLE"));
        for byte in 0..=255u8 {
            let name = [b'a', byte, b'b'];
            let allowed = byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert_eq!(check_name(&name).is_ok(), allowed, "{byte}");
        }
    }

    proptest! {
        #[test]
        fn the_arithmetic_says_what_the_rules_say(name in "[aZ09._:*-]{0,12}|([a-b0]{60,65}\\.){0,5}[a-b0]{0,64}") {
            let name: String = name;
            prop_assert_eq!(valid(&name), is_name(&name), "{}", name);
        }
    }
}
