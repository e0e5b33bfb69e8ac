//! What tests of programs share.

/// Ends a test where it cannot be done.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: loading eBPF programs needs root");
            return;
        }
    };
}
