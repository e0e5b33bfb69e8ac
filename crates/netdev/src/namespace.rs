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

/// Something that one process a network namespace may do. Given back when dropped, or when the process
/// ends in any way.
#[derive(Debug)]
pub struct Lock {
    _held: UnixListener,
}

/// Takes a lock of the calling thread's network namespace: an abstract socket address, which belongs to
/// the namespace. `AddrInUse` where another process holds it.
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
