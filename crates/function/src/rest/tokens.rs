//! The tokens of a file.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::watched::Stamp;

/// Shortest token, characters: 64 bits in hexadecimal digits.
const TOKEN_MIN: usize = 16;

/// Largest file, bytes.
const FILE_MAX: u64 = 64 << 10;

/// Tokens that are valid at the moment.
pub(super) struct Tokens {
    file: PathBuf,
    held: Mutex<Held>,
}

struct Held {
    stamp: Stamp,
    tokens: Vec<String>,
}

impl Tokens {
    /// Reads the file.
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        let stamp = Stamp::of(&[file]);
        let held = Held { stamp, tokens: read(file)? }.into();
        Ok(Self { file: file.into(), held })
    }

    /// Whether a token is valid. Reads the file again if it has changed.
    pub(super) fn hold(&self, given: &str) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&[&self.file]);
        if stamp != held.stamp {
            // Old tokens are not kept: they may be the reason for the change.
            let tokens = read(&self.file).unwrap_or_else(|error| {
                tracing::error!(%error, "no request to the REST API is authorised");
                Vec::new()
            });
            *held = Held { stamp, tokens };
        }
        let same = |token: &String| usize::from(equal(given.as_bytes(), token.as_bytes()));
        held.tokens.iter().map(same).sum::<usize>() > 0 // all are compared, whichever is equal
    }
}

fn read(file: &Path) -> io::Result<Vec<String>> {
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX).read_to_string(&mut text)?;
    let tokens = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from);
    let tokens: Vec<_> = tokens.collect();
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    match tokens.iter().position(|token| token.len() < TOKEN_MIN) {
        _ if tokens.is_empty() => refused("there is no token in it".into()),
        Some(at) => refused(format!("token {} has less than {TOKEN_MIN} characters", at + 1)),
        None => Ok(tokens),
    }
}

/// Compares in constant time.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn only_equal_tokens_are_equal() {
        assert!(equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd") && !equal(b"abc", b"ab") && !equal(b"", b"a"));
    }

    #[test]
    fn the_tokens_are_those_of_the_file_at_the_moment() {
        let file = env::temp_dir().join(format!("hawser-tokens-{}", process::id()));
        let [old, new] = ["an-old-token-of-the-test", "a-new-token-of-the-test"];
        fs::write(&file, format!("{old}\n")).unwrap();
        let tokens = Tokens::open(&file).unwrap();
        let valid = || [old, new, ""].map(|token| tokens.hold(token));
        assert_eq!(valid(), [true, false, false]);
        fs::write(&file, format!("\n  {old}\n{new}  \n")).unwrap();
        assert_eq!(valid(), [true, true, false], "both while clients change over");
        fs::write(file.with_extension("new"), new).unwrap();
        fs::rename(file.with_extension("new"), &file).unwrap();
        assert_eq!(valid(), [false, true, false]);
        for broken in ["", "\n\n", "short\n", &format!("{new}\nshort")] {
            fs::write(&file, broken).unwrap();
            assert_eq!(valid(), [false; 3], "{broken:?}");
            assert!(Tokens::open(&file).is_err());
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(valid(), [false; 3]);
        fs::write(&file, new).unwrap();
        assert_eq!(valid(), [false, true, false]);
        fs::remove_file(&file).unwrap();
    }
}
