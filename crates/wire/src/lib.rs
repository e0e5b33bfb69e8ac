//! Wire formats: a view over bytes and a validated value, one header a file.
