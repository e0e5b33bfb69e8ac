//! A forwarder in another process: its rings of observations, also after it was restarted.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

use hawser_bpf::nsh::Observations;
use tokio::{net::UnixStream, runtime, time::timeout};

use crate::{
    health::http,
    report::{Packets, Sensing},
};

/// How often the forwarder is asked.
const PERIOD: Duration = Duration::from_millis(500);
/// Time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What a forwarder said last.
#[derive(Debug)]
pub(crate) struct Forwarder(Mutex<Packets>);

impl Forwarder {
    /// Asks the forwarder in a thread of its own, and gives each worker its ring whenever there are new ones.
    pub(crate) fn follow(
        socket: PathBuf,
        workers: Vec<Sender<Observations>>,
        ended: Arc<AtomicBool>,
    ) -> io::Result<Arc<Self>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let followed = Arc::new(Self(Packets { observed: 0, lost: 0, other: 0 }.into()));
        let told = Arc::clone(&followed);
        let following = move || {
            let mut known = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                match runtime.block_on(ask(&socket)) {
                    Ok(sensing) => told.take(sensing, &mut known, &workers),
                    Err(error) => tracing::debug!(error, "the forwarder does not answer"),
                }
                thread::sleep(PERIOD);
            }
        };
        thread::Builder::new().name("forwarder".into()).spawn(following)?;
        Ok(followed)
    }

    /// What became of the packets at the forwarder, since that started.
    pub(crate) fn packets(&self) -> Packets {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, sensing: Sensing, known: &mut Vec<u32>, workers: &[Sender<Observations>]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sensing.packets;
        if sensing.rings == *known {
            return;
        }
        if sensing.rings.len() == workers.len() {
            for (id, worker) in sensing.rings.iter().zip(workers) {
                match Observations::open(*id) {
                    Ok(observations) => drop(worker.send(observations)), // fails only at the end
                    Err(error) => tracing::error!(%error, "a ring of the forwarder is missing"),
                }
            }
        } else {
            let (found, expected) = (sensing.rings.len(), workers.len());
            tracing::error!(found, expected, "the forwarder needs a ring for each worker");
        }
        *known = sensing.rings;
    }
}

async fn ask(socket: &Path) -> Result<Sensing, String> {
    let asked = async {
        let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string());
        http::get(&mut stream?, "control", "/v1/sensor", true).await
    };
    let answer = timeout(ANSWER_TIME, asked).await.map_err(|_| "no answer".to_owned())??;
    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
}
