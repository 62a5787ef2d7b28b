//! Makes ClientHellos, as small as they can be.

/// Puts a two-byte length in front.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let mut all = u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    all.extend(bytes);
    all
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut all = kind.to_be_bytes().to_vec();
    all.extend(counted(data));
    all
}

/// A hello for a server name, with so many bytes of padding, in records of at most so many bytes.
pub(crate) fn cut(name: Option<&str>, padding: usize, record: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let mut entry = vec![0];
        entry.extend(counted(name.as_bytes()));
        extensions.extend(extension(0, &counted(&entry)));
    }
    extensions.extend(extension(21, &vec![0; padding]));
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(counted(&[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(counted(&extensions));
    let mut handshake = vec![1];
    handshake.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    handshake.extend(body);
    let mut stream = Vec::new();
    for piece in handshake.chunks(record) {
        stream.extend([22, 3, 1]);
        stream.extend(counted(piece));
    }
    stream
}

/// A hello of one record for a server name.
pub(crate) fn named(name: &str) -> Vec<u8> {
    cut(Some(name), 100, 16_384)
}
