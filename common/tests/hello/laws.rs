//! What holds for every stream of bytes. The fuzz target checks it, too.

use weir_common::{
    abi::ids::NameTableId,
    hello::{Bytes, Found, NameKey, Protocols, Read, Records, copy, read},
};

/// A capacity that every hello fits into which lies in one record.
pub(crate) const AMPLE: u32 = 1 << 16;

/// Checks what both readers say of a stream, and of its beginnings of the given lengths.
pub(crate) fn hold(stream: &[u8], beginnings: impl Iterator<Item = usize>) {
    let kernel = read(stream, AMPLE);
    let agent = Records::new(stream).read();
    both_readers_agree(stream, kernel, agent);
    the_length_is_where_the_bytes_end(&Records::new(stream));
    for len in beginnings.filter(|len| *len < stream.len()) {
        let beginning = &stream[..len];
        only_need_more_changes(beginning, read(beginning, AMPLE), kernel);
        only_need_more_changes(beginning, Records::new(beginning).read(), agent);
    }
    if let Read::Found(found) = kernel {
        what_is_found_can_be_read(stream, found);
        assert!(found.end as usize <= stream.len());
    }
    if let Read::Found(found) = agent {
        let records = Records::new(stream);
        what_is_found_can_be_read(&records, found);
        let len = records.stream_len(found.end).expect("the hello is there") as usize;
        assert!(len <= stream.len().min(AMPLE as usize));
        assert_eq!(Records::new(&stream[..len]).read(), agent, "nothing behind the hello is needed");
        assert!(
            matches!(Records::new(&stream[..len - 1]).read(), Read::NeedMore { at_least } if at_least as usize <= len)
        );
    }
}

fn both_readers_agree(stream: &[u8], kernel: Read, agent: Read) {
    match (kernel, agent) {
        (Read::BeyondMe, Read::BeyondMe) | (Read::TooBig, _) => panic!("{kernel:?}, {agent:?}"),
        (Read::BeyondMe, _) => {}
        (Read::NeedMore { at_least: kernel }, Read::NeedMore { at_least: agent }) => {
            assert!(stream.len() < kernel as usize && kernel <= agent);
        }
        _ => assert_eq!(kernel, agent),
    }
    if let Read::NeedMore { at_least } = agent {
        assert!(stream.len() < at_least as usize && at_least <= AMPLE);
    }
}

fn the_length_is_where_the_bytes_end(records: &Records<'_>) {
    let len = records.len();
    assert_eq!(records.u8(len), None);
    assert!(len == 0 || records.u8(len - 1).is_some());
}

fn only_need_more_changes(beginning: &[u8], early: Read, late: Read) {
    let Read::NeedMore { at_least } = early else {
        assert_eq!(early, late, "after {} bytes", beginning.len());
        return;
    };
    assert!(beginning.len() < at_least as usize);
    if let Read::NeedMore { at_least: later } = late {
        assert!(at_least <= later);
    }
}

fn what_is_found_can_be_read<B: Bytes + ?Sized>(bytes: &B, found: Found) {
    for span in [found.name, found.alpn].into_iter().flatten() {
        assert!(span.len > 0 && span.at + u32::from(span.len) <= found.end);
    }
    for protocol in Protocols::new(bytes, found.alpn) {
        assert!(copy(bytes, protocol, &mut [0; 255]).is_some());
    }
    if let Some(name) = found.name {
        let mut text = [0; u16::MAX as usize];
        let text = copy(bytes, name, &mut text).expect("the name is there");
        let mut key = NameKey::EMPTY;
        let query = key.query(NameTableId(1), bytes, name);
        let text = core::str::from_utf8(text).unwrap_or("");
        assert_eq!(query.is_ok(), NameKey::exact(NameTableId(1), text).is_ok());
    }
}
