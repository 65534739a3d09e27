//! Entries and batches of them, as bytes.
//!
//! A batch: length of what follows its header (4 bytes, little-endian as all numbers), CRC-32 of all behind it (4), the
//! batch's number (8), the store's time (8); then entries. An entry: kind (1), end in ms (8), length of the key (2), length
//! of the value (4), key, value. The parts of a key are separated by a zero byte. The length of a value that is no
//! more is the largest there is.

use lingua_core::Moment;

use super::Kind;

/// Bytes of a batch's header.
const HEADER: usize = 24;
/// Bytes of the header that the checksum does not cover.
const UNCHECKED: usize = 8;
/// Bytes of an entry before its key.
const ENTRY: usize = 15;
/// The length of a value that is no more.
const GONE: u32 = u32::MAX;

/// Entries on their way into a batch, behind room for its header.
#[derive(Debug)]
pub(super) struct Pending(Vec<u8>);

impl Default for Pending {
    fn default() -> Self {
        Pending(vec![0; HEADER])
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == HEADER
    }

    pub(super) fn put(
        &mut self,
        kind: Kind,
        key: &[&str],
        until: Moment,
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let at = self.begin(kind, key, until);
        let before = self.0.len();
        value(&mut self.0);
        let length = u32::try_from(self.0.len() - before).expect("a value is far below 4 GiB");
        self.0[at + 11..at + ENTRY].copy_from_slice(&length.to_le_bytes());
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &[&str]) {
        self.begin(kind, key, Moment::ZERO);
    }

    /// Everything of an entry but its value; its length says that it is gone.
    fn begin(&mut self, kind: Kind, key: &[&str], until: Moment) -> usize {
        let at = self.0.len();
        self.0.push(kind as u8);
        self.0.extend_from_slice(&until.as_millis().to_le_bytes());
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&GONE.to_le_bytes());
        for (n, part) in key.iter().enumerate() {
            if n > 0 {
                self.0.push(0);
            }
            self.0.extend_from_slice(part.as_bytes());
        }
        let length = self.0.len() - at - ENTRY;
        let length = u16::try_from(length).expect("a key is made of checked ids");
        self.0[at + 9..at + 11].copy_from_slice(&length.to_le_bytes());
        at
    }

    /// The batch, ready to be written.
    pub(super) fn seal(&mut self, number: u64, now: Moment) -> &[u8] {
        let length = u32::try_from(self.0.len() - HEADER).expect("a batch is far below 4 GiB");
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0[8..16].copy_from_slice(&number.to_le_bytes());
        self.0[16..24].copy_from_slice(&now.as_millis().to_le_bytes());
        let sum = crc32fast::hash(&self.0[UNCHECKED..]);
        self.0[4..8].copy_from_slice(&sum.to_le_bytes());
        &self.0
    }

    pub(super) fn clear(&mut self) {
        // A burst's room is given back.
        self.0.shrink_to(64 * 1024);
        self.0.truncate(HEADER);
    }
}

/// A batch as it was read.
pub(super) struct Batch<'a> {
    pub(super) number: u64,
    pub(super) now: Moment,
    entries: &'a [u8],
}

/// An entry as it was read. A value that is no more has none.
pub(super) struct Found<'a> {
    /// The kind's number and the key: the name of the entry in the database.
    pub(super) kind: u8,
    pub(super) key: &'a [u8],
    pub(super) until: Moment,
    pub(super) value: Option<&'a [u8]>,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The batch with which these bytes begin, and what is behind it; `None` if they do not begin with a whole one.
pub(super) fn first(bytes: &[u8]) -> Option<(Batch<'_>, &[u8])> {
    let length = u32::from_le_bytes(array(bytes, 0)?) as usize;
    let sum = u32::from_le_bytes(array(bytes, 4)?);
    let whole = bytes.get(..HEADER.checked_add(length)?)?;
    if crc32fast::hash(&whole[UNCHECKED..]) != sum {
        return None;
    }
    let batch = Batch {
        number: u64::from_le_bytes(array(whole, 8)?),
        now: Moment::from_millis(u64::from_le_bytes(array(whole, 16)?)),
        entries: &whole[HEADER..],
    };
    Some((batch, &bytes[whole.len()..]))
}

impl<'a> Batch<'a> {
    /// Its entries, in order. What is wrong in one ends them: the checksum was right, so it was written so.
    pub(super) fn entries(&self) -> impl Iterator<Item = Found<'a>> + use<'a> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            let key = u16::from_le_bytes(array(rest, 9)?) as usize;
            let value = u32::from_le_bytes(array(rest, 11)?);
            let end = ENTRY + key;
            let length = if value == GONE { 0 } else { value as usize };
            let found = Found {
                kind: rest[0],
                key: rest.get(ENTRY..end)?,
                until: Moment::from_millis(u64::from_le_bytes(array(rest, 1)?)),
                value: (value != GONE).then_some(rest.get(end..end + length)?),
            };
            rest = &rest[end + length..];
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn batch() -> Vec<u8> {
        let mut pending = Pending::default();
        pending.put(Kind::Turn, &["t", "s", "1"], at(9), |bytes| bytes.extend(b"gpu-1"));
        pending.remove(Kind::Order, &["gpu-1"]);
        pending.put(Kind::Saved, &["t", "s"], at(7), |_| ());
        pending.seal(5, at(1)).to_vec()
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let mut bytes = batch();
        bytes.extend([1, 2, 3]);
        let (batch, rest) = first(&bytes).unwrap();
        assert_eq!((batch.number, batch.now, rest), (5, at(1), &[1, 2, 3][..]));
        let found: Vec<_> =
            batch.entries().map(|e| (e.kind, e.key, e.until.as_millis(), e.value)).collect();
        let turn = (Kind::Turn as u8, &b"t\0s\x001"[..], 9, Some(&b"gpu-1"[..]));
        let order = (Kind::Order as u8, &b"gpu-1"[..], 0, None);
        let saved = (Kind::Saved as u8, &b"t\0s"[..], 7, Some(&b""[..]));
        assert_eq!(found, [turn, order, saved]);
    }

    #[test]
    fn a_batch_of_which_a_byte_is_missing_or_wrong_is_none() {
        let whole = batch();
        for length in 0..whole.len() {
            assert!(first(&whole[..length]).is_none(), "{length} bytes");
        }
        for byte in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[byte] ^= 4;
            assert!(first(&wrong).is_none(), "byte {byte}");
        }
    }

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        assert_eq!(Kind::of(0), None);
    }
}
