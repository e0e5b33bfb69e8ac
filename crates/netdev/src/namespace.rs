//! Network namespaces.

use std::{fs::File, io, os::fd::AsFd, os::unix::fs::MetadataExt, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs something in a thread that has moved into a network namespace: what it opens there stays
/// there. Without a name, it runs in the caller's namespace. Threads it starts inherit the namespace.
pub fn within<T: Send>(name: Option<&str>, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(name) = name else { return Ok(run()) };
    let namespace = File::open(format!("/run/netns/{name}"))?;
    thread::scope(|scope| {
        let inside = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(run())
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The inode by which the kernel tells the calling thread's network namespace from others.
pub fn inode() -> io::Result<u64> {
    Ok(File::open("/proc/thread-self/ns/net")?.metadata()?.ino())
}
