//! The model in force: read from a file, replaced when that changes, never by one that is refused.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use hawser_daemon::config::FieldError;
use hawser_flowmeter::features::NAMES;
use hawser_trees::Model;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use crate::watched::Stamp;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// A model with its name.
#[derive(Debug)]
pub(crate) struct Named {
    /// The model.
    pub(crate) model: Model,
    /// Its name and version.
    pub(crate) name: Arc<str>,
}

/// The model in force, and what became of files.
#[derive(Debug)]
pub(crate) struct Models {
    file: Option<PathBuf>,
    current: RwLock<Held>,
    loaded: AtomicU64,
    refused: AtomicU64,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Held {
    model: Option<Arc<Named>>,
    stamp: Stamp,
    error: Option<String>,
}

/// State of the model.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Name and version of the model in force.
    name: Option<String>,
    /// Files that came into force since the daemon started.
    loaded: u64,
    /// Files that were refused.
    refused: u64,
    /// Why the last file was refused; nothing if it came into force.
    error: Option<String>,
}

impl Models {
    /// Reads the model.
    ///
    /// # Errors
    /// The field, if the file cannot be used.
    pub(crate) fn open(file: Option<&str>) -> Result<Arc<Self>, FieldError> {
        let file = file.map(PathBuf::from);
        let mut held = Held::default();
        if let Some(path) = &file {
            held.stamp = Stamp::of(&[path]);
            let model = read(path).map_err(|error| {
                let expected = format!("a model that can be used ({error})");
                FieldError::new("ids.model", path.display().to_string(), expected)
            })?;
            held.model = Some(Arc::new(model));
        }
        let loaded = AtomicU64::new(held.model.is_some().into());
        let (refused, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Arc::new(Self { file, current: RwLock::new(held), loaded, refused, ended }))
    }

    /// The model in force.
    pub(crate) fn current(&self) -> Option<Arc<Named>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).model.clone()
    }

    /// The state for people and monitoring.
    pub(crate) fn report(&self) -> Report {
        let held = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Report {
            name: held.model.as_ref().map(|named| named.name.to_string()),
            loaded: self.loaded.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            error: held.error.clone(),
        }
    }

    /// Looks at the file from now on, and at once at each SIGHUP, in a thread of its own.
    pub(crate) fn watch(self: &Arc<Self>) -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let hangup = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup())?
        };
        let models = Arc::clone(self);
        let watching = move || runtime.block_on(models.reload_for_ever(hangup));
        thread::Builder::new().name("model".into()).spawn(watching)?;
        Ok(())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    async fn reload_for_ever(&self, mut hangup: Signal) {
        while !self.ended.load(Ordering::Relaxed) {
            let is_asked = tokio::select! {
                _ = hangup.recv() => true,
                () = sleep(PERIOD) => false,
            };
            if let Some(file) = &self.file {
                self.reload(file, is_asked);
            }
        }
    }

    /// Reads the file if it has changed, or if somebody asks for it.
    fn reload(&self, file: &Path, is_asked: bool) {
        let stamp = Stamp::of(&[file]);
        if !is_asked && self.current.read().unwrap_or_else(PoisonError::into_inner).stamp == stamp {
            return;
        }
        let read = read(file); // takes long; workers go on with the old model meanwhile
        let mut held = self.current.write().unwrap_or_else(PoisonError::into_inner);
        held.stamp = stamp;
        match read {
            Ok(model) => {
                tracing::info!(model = %model.name, "a new model is in force");
                self.loaded.fetch_add(1, Ordering::Relaxed);
                held.model = Some(Arc::new(model));
                held.error = None;
            }
            Err(error) => {
                tracing::error!(error, "a model is refused, the old one stays in force");
                self.refused.fetch_add(1, Ordering::Relaxed);
                held.error = Some(error);
            }
        }
    }
}

fn read(path: &Path) -> Result<Named, String> {
    let told = |error: io::Error| error.to_string();
    let length = fs::metadata(path).map_err(told)?.len();
    if length > hawser_trees::SIZE_MAX as u64 {
        return Err(format!("found {length} bytes, expected at most 64 MiB"));
    }
    let bytes = fs::read(path).map_err(told)?;
    let model = Model::parse(&bytes, &NAMES).map_err(|refused| refused.to_string())?;
    let name = format!("{} {}", model.name(), model.version()).into();
    Ok(Named { model, name })
}
