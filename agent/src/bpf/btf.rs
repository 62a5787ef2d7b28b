//! Reads the kernel's own description of its types (BTF) as far as needed to find where a structure
//! keeps a member. Pure: bytes in, offset out.
//!
//! Format: the kernel's Documentation/bpf/btf.rst. A file is a header, a sequence of type records, each
//! a fixed head of twelve bytes and a tail whose length its kind gives, and a table of names.

use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The bytes are not BTF of a known form.
    #[error("the kernel's BTF cannot be read (at byte {0})")]
    Malformed(usize),
    /// There is no such member.
    #[error("struct {0} has no {1}")]
    NoMember(String, String),
}

/// A structure or union: its name and members.
struct Composite<'a> {
    name: &'a str,
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    name: &'a str,
    kind: u32,
    bits: u32,
}

/// Parsed types, as far as they are structures, unions or names for them.
pub(super) struct Btf<'a> {
    composites: BTreeMap<u32, Composite<'a>>,
    /// Modifiers and typedefs: the type that they stand for.
    aliases: BTreeMap<u32, u32>,
}

impl<'a> Btf<'a> {
    /// Reads the structures and unions out of a BTF file of this machine's byte order.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = Reader { bytes, at: 0 };
        if header.u16_at(0)? != MAGIC {
            return Err(Error::Malformed(0));
        }
        let start = header.u32_at(4)? as usize;
        let (types_at, types_len) = (header.u32_at(8)? as usize, header.u32_at(12)? as usize);
        let (names_at, names_len) = (header.u32_at(16)? as usize, header.u32_at(20)? as usize);
        let section =
            |at: usize, len: usize| bytes.get(start + at..start + at + len).ok_or(Error::Malformed(start + at));
        let names = section(names_at, names_len)?;
        let mut reader = Reader { bytes: section(types_at, types_len)?, at: 0 };
        let mut btf = Self { composites: BTreeMap::new(), aliases: BTreeMap::new() };
        // Type 0 is void and has no record.
        let mut id = 1;
        while reader.at < reader.bytes.len() {
            btf.record(id, &mut reader, names)?;
            id += 1;
        }
        Ok(btf)
    }

    fn record(&mut self, id: u32, reader: &mut Reader<'a>, names: &'a [u8]) -> Result<(), Error> {
        let (name, info, size_or_type) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (kind, count, bitfields) = ((info >> 24) & 0x1f, (info & 0xffff) as usize, info >> 31 == 1);
        match kind {
            // INT, VAR, DECL_TAG
            1 | 14 | 17 => reader.skip(4)?,
            // PTR, FWD, FUNC, FLOAT
            2 | 7 | 12 | 16 => {}
            // ARRAY
            3 => reader.skip(12)?,
            // STRUCT, UNION
            4 | 5 => {
                let mut members = Vec::with_capacity(count);
                for _ in 0..count {
                    let (name, kind, offset) = (reader.u32()?, reader.u32()?, reader.u32()?);
                    // With bit-fields the upper eight bits are the field's width.
                    let bits = if bitfields { offset & 0x00ff_ffff } else { offset };
                    members.push(Member { name: text(names, name)?, kind, bits });
                }
                self.composites.insert(id, Composite { name: text(names, name)?, members });
            }
            // ENUM
            6 => reader.skip(count * 8)?,
            // TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG
            8..=11 | 18 => {
                self.aliases.insert(id, size_or_type);
            }
            // FUNC_PROTO
            13 => reader.skip(count * 8)?,
            // DATASEC, ENUM64
            15 | 19 => reader.skip(count * 12)?,
            _ => return Err(Error::Malformed(reader.at)),
        }
        Ok(())
    }

    /// Returns the offset of a member in bytes, also of one in nameless members.
    pub(super) fn offset(&self, structure: &str, member: &str) -> Result<u32, Error> {
        self.composites
            .values()
            .filter(|composite| composite.name == structure)
            .find_map(|composite| self.bits(composite, member))
            .map(|bits| bits / 8)
            .ok_or_else(|| Error::NoMember(structure.to_owned(), member.to_owned()))
    }

    fn bits(&self, composite: &Composite<'_>, wanted: &str) -> Option<u32> {
        composite.members.iter().find_map(|member| {
            if member.name == wanted {
                return Some(member.bits);
            }
            let inner = self.composites.get(&self.resolved(member.kind)).filter(|_| member.name.is_empty())?;
            Some(member.bits + self.bits(inner, wanted)?)
        })
    }

    fn resolved(&self, mut kind: u32) -> u32 {
        while let Some(behind) = self.aliases.get(&kind) {
            kind = *behind;
        }
        kind
    }
}

/// Reads words; can only go forward.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u32(&mut self) -> Result<u32, Error> {
        let word = self.u32_at(self.at)?;
        self.at += 4;
        Ok(word)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Error> {
        self.at += bytes;
        if self.at > self.bytes.len() { Err(Error::Malformed(self.at)) } else { Ok(()) }
    }

    fn u16_at(&self, at: usize) -> Result<u16, Error> {
        let bytes = self.bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_ne_bytes).ok_or(Error::Malformed(at))
    }

    fn u32_at(&self, at: usize) -> Result<u32, Error> {
        let bytes = self.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(Error::Malformed(at))
    }
}

fn text(names: &[u8], at: u32) -> Result<&str, Error> {
    let rest = names.get(at as usize..).ok_or(Error::Malformed(at as usize))?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(Error::Malformed(at as usize))?;
    std::str::from_utf8(&rest[..end]).map_err(|_| Error::Malformed(at as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names at 1, 7, 11 and 17, then: 1 int, 2 union { int flags }, 3 const of 2,
    /// 4 struct sock { int first at 0; <nameless> 3 at 32 bits }.
    fn sample() -> Vec<u8> {
        let names = b"\0first\0int\0flags\0sock\0";
        let types: Vec<u32> = [
            vec![7, 1 << 24, 4, 32],
            vec![0, 5 << 24 | 1, 4, 11, 1, 0],
            vec![0, 10 << 24, 2],
            vec![17, 4 << 24 | 2, 8, 1, 1, 0, 0, 3, 32],
        ]
        .concat();
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_ne_bytes).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types.len() as u32, types.len() as u32, names.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(names);
        bytes
    }

    #[test]
    fn members_are_found_also_behind_nameless_ones_and_modifiers() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).expect("BTF");
        assert_eq!(btf.offset("sock", "first"), Ok(0));
        assert_eq!(btf.offset("sock", "flags"), Ok(4));
        assert_eq!(btf.offset("sock", "nothing"), Err(Error::NoMember("sock".into(), "nothing".into())));
    }

    #[test]
    fn every_truncation_is_an_error_and_no_panic() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..end]).is_err(), "{end} bytes");
        }
    }
}
