//! Helpers for tests of the programs.

/// Skips a test that cannot run here.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: loading eBPF programs needs root");
            return;
        }
    };
}
