//! The first record of each side.

use std::ops::RangeInclusive;

use super::{HEADER_LEN, HELLO};
use crate::Malformed;

const MAGIC: [u8; 4] = *b"HWSR";
const VERSION: u8 = 1;
const FIXED_LEN: usize = 8;

/// Bytes of the longest branch name: that of a DNS label (RFC 1035 section 2.3.4).
pub const MAX_NAME_LEN: usize = 63;

/// Who speaks on a connection, and for which path group.
///
/// ```text
/// byte  0 .. 3   4         5           6      7     8 ...
///       "HWSR"   version   branch id   group  0     branch name
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Number of the speaker's branch.
    pub id: u8,
    /// Path group whose packets the connection carries.
    pub group: u8,
    /// Name of the speaker's branch, 1 to [`MAX_NAME_LEN`] bytes.
    pub branch: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) const LENGTHS: RangeInclusive<usize> = FIXED_LEN + 1..=FIXED_LEN + MAX_NAME_LEN;

    /// Reads the body of a record.
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

    /// Appends the whole record. A name that is too long is cut.
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
