//! Whether files have changed since they were read.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// State of files: it differs after each change of their content, also where one is replaced. `None` for a file that
/// cannot be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<[i64; 4]>>);

impl Stamp {
    /// The state of files now.
    pub(crate) fn of(files: &[&Path]) -> Self {
        let state = |file: &&Path| {
            let data = fs::metadata(file).ok()?;
            Some([
                data.ino().cast_signed(),
                data.len().cast_signed(),
                data.ctime(),
                data.ctime_nsec(),
            ])
        };
        Self(files.iter().map(state).collect())
    }
}
