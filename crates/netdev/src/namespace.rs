//! Network namespaces.

use std::{
    fs::File,
    io,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::MetadataExt,
            net::{SocketAddr, UnixListener},
        },
    },
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs a closure in a network namespace, in a thread of its own, or in the caller's namespace without a
/// name. Sockets that it opens stay in the namespace, and threads that it starts inherit it.
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

/// Inode of the calling thread's network namespace, which identifies it.
pub fn inode() -> io::Result<u64> {
    Ok(File::open("/proc/thread-self/ns/net")?.metadata()?.ino())
}

/// A lock within a network namespace. Released when it is dropped and when the process ends in any way.
#[derive(Debug)]
pub struct Lock {
    _held: UnixListener,
}

/// Takes a lock in the calling thread's network namespace: an abstract socket address, whose scope is the
/// namespace. `AddrInUse` if another process holds it.
pub fn lock(name: &str) -> io::Result<Lock> {
    let address = SocketAddr::from_abstract_name(name)?;
    Ok(Lock { _held: UnixListener::bind_addr(&address)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once() {
        let name = format!("hawser-test-{}", std::process::id());
        let held = lock(&name).expect("it is free");
        assert_eq!(lock(&name).expect_err("it is held").kind(), io::ErrorKind::AddrInUse);
        drop(held);
        assert!(lock(&name).is_ok());
    }
}
