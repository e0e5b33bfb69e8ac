//! The hello: first record in each direction.

use std::ops::RangeInclusive;

use super::{HEADER_LEN, HELLO};
use crate::Malformed;

const MAGIC: [u8; 4] = *b"HWSR";
const VERSION: u8 = 1;
/// Length of the fields before the name, bytes.
const FIXED_LEN: usize = 8;

/// Longest branch name, bytes: that of a DNS label (RFC 1035 section 2.3.4).
pub const MAX_NAME_LEN: usize = 63;

/// Identifies the sender of a connection, and the path group.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------------------------------------------------------+
/// |                        Magic ("HWSR")                         |
/// +---------------+---------------+---------------+---------------+
/// |  Version (1)  |   Branch ID   |  Path Group   |  Reserved (0) |
/// +---------------+---------------+---------------+---------------+
/// |        Branch Name (1 to 63 bytes, UTF-8)                     |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Number of the sender's branch.
    pub id: u8,
    /// Path group whose packets the connection carries.
    pub group: u8,
    /// Name of the sender's branch, 1 to [`MAX_NAME_LEN`] bytes.
    pub branch: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) const LENGTHS: RangeInclusive<usize> = FIXED_LEN + 1..=FIXED_LEN + MAX_NAME_LEN;

    /// Parses the body of a record.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = |field, offset, found, expected| Malformed { field, offset, found, expected };
        let Some((fixed, name)) = body.split_first_chunk::<FIXED_LEN>() else {
            return Err(wrong("hello length", 0, body.len() as u64, "9 or more"));
        };
        let [m0, m1, m2, m3, version, id, group, reserved] = *fixed;
        let magic = [m0, m1, m2, m3];
        if magic != MAGIC {
            return Err(wrong("hello magic", 0, u32::from_be_bytes(magic).into(), "HWSR"));
        }
        if version != VERSION {
            return Err(wrong("hello version", 4, version.into(), "1"));
        }
        if reserved != 0 {
            return Err(wrong("hello reserved byte", 7, reserved.into(), "0"));
        }
        let branch = std::str::from_utf8(name)
            .map_err(|e| wrong("branch name", FIXED_LEN, e.valid_up_to() as u64, "UTF-8 text"))?;
        Ok(Self { id, group, branch })
    }

    /// Appends the whole record. A name that is too long is truncated.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let name = self.branch.as_bytes();
        let name = name.get(..MAX_NAME_LEN).unwrap_or(name);
        #[allow(clippy::cast_possible_truncation)] // at most FIXED_LEN + MAX_NAME_LEN
        let len = (FIXED_LEN + name.len()) as u16;
        let [high, low] = len.to_be_bytes();
        out.reserve(HEADER_LEN + usize::from(len));
        out.extend([HELLO, high, low]);
        out.extend(MAGIC);
        out.extend([VERSION, self.id, self.group, 0]);
        out.extend(name);
    }
}
