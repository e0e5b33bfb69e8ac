//! The control API's server: HTTP on a Unix socket, in a thread of its own, beside a role's event loop.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use axum::Router;
use prometheus_client::{encoding::text::encode, registry::Registry};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    runtime::{self, Runtime},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// Why the control socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A running daemon listens on it.
    #[error("{}: another daemon holds this control socket", .0.display())]
    Held(PathBuf),
    /// The file exists and is not a socket.
    #[error("{}: exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The control socket.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// The metrics in Prometheus' text format.
#[must_use]
pub fn prometheus_text(registry: &Registry) -> String {
    let mut text = String::new();
    let _ = encode(&mut text, registry); // writing to a string cannot fail
    text
}

/// A bound control socket that is not served yet.
pub struct Listener {
    path: PathBuf,
    socket: UnixListener,
}

/// Binds the control socket with mode 0600. A socket left behind by a dead daemon is replaced.
pub fn bind(path: &Path) -> Result<Listener, Error> {
    let failed = |source| Error::Io { path: path.into(), source };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The lock is held until the socket is bound: of two daemons that start at once, the second finds the socket.
    let folder = File::open(folder).map_err(failed)?;
    flock(&folder, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
    remove_stale(path)?;
    let socket = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(Listener { path: path.into(), socket })
}

fn remove_stale(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { path: path.into(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(Error::NotASocket(path.into())),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(Error::Held(path.into())),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        },
    }
}

/// A running control API.
pub struct Server {
    path: PathBuf,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Serves `router` in a thread of its own. SIGTERM and SIGINT call `on_signal` there.
pub fn serve(
    listener: Listener,
    router: Router,
    on_signal: impl Fn() + Send + 'static,
) -> io::Result<Server> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let Listener { path, socket } = listener;
    let thread = thread::Builder::new()
        .name("control".into())
        .spawn(move || answer(&runtime, socket, router, on_signal, stopped))?;
    Ok(Server { path, stop, thread })
}

fn answer(
    runtime: &Runtime,
    socket: UnixListener,
    router: Router,
    on_signal: impl Fn() + Send + 'static,
    stopped: oneshot::Receiver<()>,
) {
    let result = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let socket = tokio::net::UnixListener::from_std(socket)?;
        let server = axum::serve(socket, router);
        tokio::select! {
            result = server.into_future() => result,
            () = async { loop {
                tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () };
                on_signal();
            } } => Ok(()),
            _ = stopped => Ok(()),
        }
    });
    if let Err(error) = result {
        tracing::error!(%error, "the control API has ended");
    }
}

impl Server {
    /// Stops the thread and removes the socket.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        let _ = fs::remove_file(&self.path);
    }
}
