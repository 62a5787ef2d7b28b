//! Builds ClientHellos by hand, and cuts them.

use proptest::{collection::vec, option, prelude::*, sample::Index};
use weir_common::hello::{Bytes, Protocols, Read, Records, Span, copy};

/// What goes into a hello.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) session_id: Vec<u8>,
    pub(crate) suites: Vec<u8>,
    pub(crate) methods: Vec<u8>,
    /// Type and data; `None` for a hello that ends before the list.
    pub(crate) extensions: Option<Vec<(u16, Vec<u8>)>>,
}

/// What a reader should find.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) name: Option<String>,
    pub(crate) alpn: Vec<Vec<u8>>,
}

impl Hello {
    pub(crate) fn with(extensions: Vec<(u16, Vec<u8>)>) -> Self {
        Self { session_id: vec![7; 32], suites: vec![0x13, 1], methods: vec![0], extensions: Some(extensions) }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([0xab; 32]);
        body.extend(with_len::<1>(&self.session_id));
        body.extend(with_len::<2>(&self.suites));
        body.extend(with_len::<1>(&self.methods));
        if let Some(extensions) = &self.extensions {
            let list = extensions.iter().map(|(kind, data)| [&kind.to_be_bytes()[..], &with_len::<2>(data)].concat());
            body.extend(with_len::<2>(&list.collect::<Vec<_>>().concat()));
        }
        body
    }

    /// The handshake message.
    pub(crate) fn message(&self) -> Vec<u8> {
        message(&self.body())
    }

    /// The message in one record.
    pub(crate) fn record(&self) -> Vec<u8> {
        record(&self.message())
    }
}

/// Puts the handshake header in front of a body.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    [&[1][..], &with_len::<3>(body)].concat()
}

/// Puts a record header in front of the content.
pub(crate) fn record(content: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &with_len::<2>(content)].concat()
}

/// Puts content into records that end at the given places.
pub(crate) fn records(content: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut ends: Vec<usize> = ends.iter().copied().filter(|end| (1..content.len()).contains(end)).collect();
    ends.push(content.len());
    ends.sort_unstable();
    ends.dedup();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).flat_map(|(start, end)| record(&content[start..*end])).collect()
}

/// Puts the length, of so many bytes, in front of the data.
pub(crate) fn with_len<const BYTES: usize>(data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).unwrap().to_be_bytes();
    assert!(len[..4 - BYTES].iter().all(|byte| *byte == 0), "too long");
    [&len[4 - BYTES..], data].concat()
}

/// The extension server_name.
pub(crate) fn server_name(name: &str) -> (u16, Vec<u8>) {
    (0, with_len::<2>(&[&[0][..], &with_len::<2>(name.as_bytes())].concat()))
}

/// The extension ALPN.
pub(crate) fn alpn(protocols: &[Vec<u8>]) -> (u16, Vec<u8>) {
    (16, with_len::<2>(&protocols.iter().flat_map(|protocol| with_len::<1>(protocol)).collect::<Vec<_>>()))
}

/// Reads what a source says at the spans.
pub(crate) fn said<B: Bytes + ?Sized>(bytes: &B, read: Read) -> Option<Said> {
    let Read::Found(found) = read else { return None };
    let text = |span: Span| copy(bytes, span, &mut [0; 1 << 16]).map(<[u8]>::to_vec).expect("bytes at a span");
    Some(Said {
        name: found.name.map(|name| String::from_utf8_lossy(&text(name)).into_owned()),
        alpn: Protocols::new(bytes, found.alpn).map(text).collect(),
    })
}

/// Reads a stream as the agent does.
pub(crate) fn agent_reads(stream: &[u8]) -> Option<Said> {
    let records = Records::new(stream);
    said(&records, records.read())
}

/// Hellos of every kind, with what is in them.
pub(crate) fn hellos() -> impl Strategy<Value = (Hello, Said)> {
    let grease = (0u16..16, vec(any::<u8>(), 0..2)).prop_map(|(n, data)| (0x0a0a + 0x1010 * n, data));
    // Key shares with and without a post-quantum one, tickets, padding, ECH, the rest of a browser's.
    let other = prop_oneof![
        Just((51u16, vec![9u8; 38])),
        Just((51, vec![9; 1_260])),
        (32usize..700).prop_map(|len| (41, vec![5; len])),
        (0usize..300).prop_map(|len| (35, vec![6; len])),
        (0usize..600).prop_map(|len| (21, vec![0; len])),
        (100usize..300).prop_map(|len| (0xfe0d, vec![8; len])),
        Just((23, vec![])),
        Just((0xff01, vec![0])),
        grease,
    ];
    let names = option::of("[a-zA-Z0-9-]{1,20}(\\.[a-z]{2,5}){1,3}");
    let protocols = prop_oneof![Just(vec![]), vec(vec(any::<u8>(), 1..9), 1..4)];
    let order = vec(any::<Index>(), 2);
    (names, protocols, vec(other, 0..9), order, vec(any::<u8>(), 0..=32), 1usize..40, any::<bool>()).prop_map(
        |(name, protocols, mut extensions, order, session_id, suites, bare)| {
            let own = [name.as_deref().map(server_name), (!protocols.is_empty()).then(|| alpn(&protocols))];
            for (own, at) in own.into_iter().flatten().zip(order) {
                extensions.insert(at.index(extensions.len() + 1), own);
            }
            let bare = bare && extensions.is_empty();
            let extensions = (!bare).then_some(extensions);
            let hello = Hello { session_id, suites: vec![0x13; 2 * suites], methods: vec![0], extensions };
            (hello, Said { name, alpn: protocols })
        },
    )
}
