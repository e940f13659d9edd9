//! The open recordings: reads them on threads of their own and keeps each one's newest published history.
//!
//! A run has a reader thread (file → batches) and an ingest thread (batches → history). The ingest thread publishes at most
//! once in `PUBLISH_EVERY`; the window takes the newest at the start of a frame and never waits.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use vramscope_model::{History, Ingest, Metric};
use vramscope_trace::{Progress, SourceMessage};

use crate::ctx::Revision;
use crate::demos::Demo;
use crate::jobs::Wake;

/// Shortest time between two published histories of a run.
const PUBLISH_EVERY: Duration = Duration::from_millis(33);
/// Longest time between two while a file is being read. Each costs the window a frame and new answers, on the cores that read.
const PUBLISH_AT_LEAST: Duration = Duration::from_millis(250);
/// Batches that may wait between reader and ingest.
const QUEUE: usize = 16;

/// Where a run comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A recording inside the program.
    Demo(&'static Demo),
    /// Nothing to read: the history was there before.
    Memory,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It is being read, or waits for its turn.
    Loading,
    /// It is complete.
    Ready,
    /// It could not be read to the end; the text goes on after the file's name ("… is empty"). What was read before can be used.
    Failed(String),
}

/// One recording: a file, or one rank of a job.
pub struct Run {
    /// A short name: the file's, or the rank's.
    pub label: String,
    /// The rank, where the name tells one.
    pub rank: Option<u32>,
    /// The file, or what stands for it.
    pub origin: String,
    /// How far it is.
    pub state: RunState,
    /// Everything read so far.
    pub history: Arc<History>,
    /// Which history that is.
    pub revision: Revision,
    /// How much of the file has been read.
    pub progress: Arc<Progress>,
    source: Source,
    published: Arc<Mutex<Published>>,
}

#[derive(Default)]
struct Published {
    history: Option<Arc<History>>,
    state: Option<RunState>,
}

/// All open recordings.
#[derive(Default)]
pub struct Session {
    runs: Vec<Run>,
}

impl Session {
    /// Starts reading files and folders. The error is a sentence about the first that has nothing to read.
    pub fn open(paths: &[PathBuf], wake: &Wake) -> Result<Self, String> {
        let mut runs = Vec::new();
        for path in paths {
            for found in vramscope_collector::find_recordings(path)? {
                let origin = found.path.display().to_string();
                runs.push(Run::new(found.label, found.rank, origin, Source::File(found.path)));
            }
        }
        runs.sort_by_key(|run| run.rank);
        Ok(Self::start(runs, wake))
    }

    /// Starts reading a recording that comes with the program.
    pub fn open_demo(demo: &'static Demo, wake: &Wake) -> Self {
        Self::start(vec![Run::new(demo.title.to_owned(), None, "demo".to_owned(), Source::Demo(demo))], wake)
    }

    /// A history that is in memory already, complete: nothing is read.
    pub fn of_history(label: &str, history: History) -> Self {
        let mut run = Run::new(label.to_owned(), None, "memory".to_owned(), Source::Memory);
        run.history = Arc::new(history);
        run.state = RunState::Ready;
        Self { runs: vec![run] }
    }

    /// The recordings, ranks in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether anything is still being read.
    pub fn is_loading(&self) -> bool {
        self.runs.iter().any(|run| run.state == RunState::Loading)
    }

    /// Takes what the ingest threads have published. True if there was anything.
    pub fn poll(&mut self) -> bool {
        let mut news = false;
        for run in &mut self.runs {
            let published = std::mem::take(&mut *run.published.lock().unwrap_or_else(PoisonError::into_inner));
            news |= published.history.is_some() || published.state.is_some();
            if let Some(history) = published.history {
                run.history = history;
                run.revision = next_revision();
            }
            run.state = published.state.unwrap_or_else(|| run.state.clone());
        }
        news
    }

    /// Waits until everything has been read. For commands without a window.
    pub fn wait(&mut self) {
        while self.is_loading() {
            std::thread::sleep(Duration::from_millis(2));
            self.poll();
        }
    }

    fn start(runs: Vec<Run>, wake: &Wake) -> Self {
        let tasks: Arc<Vec<Task>> = Arc::new(runs.iter().map(Run::task).collect());
        let next = Arc::new(AtomicUsize::new(0));
        // A run keeps two threads busy, so half the cores of them are read side by side; a job of many ranks queues up.
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        for _ in 0..tasks.len().min(cores.div_ceil(2)) {
            let (tasks, next, wake) = (Arc::clone(&tasks), Arc::clone(&next), Arc::clone(wake));
            std::thread::spawn(move || {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    task.run(&wake);
                }
            });
        }
        Self { runs }
    }
}

impl Drop for Session {
    /// Nobody looks any more, so the threads stop soon.
    fn drop(&mut self) {
        for run in &self.runs {
            run.progress.cancel();
        }
    }
}

impl Run {
    /// The highest allocated value of any lane, in bytes.
    pub fn peak(&self) -> u64 {
        let peaks = self.history.lanes().iter().filter_map(|lane| self.history.peak(lane.id, Metric::Allocated));
        peaks.map(|peak| peak.bytes).max().unwrap_or(0)
    }

    fn new(label: String, rank: Option<u32>, origin: String, source: Source) -> Self {
        Self {
            label,
            rank,
            origin,
            state: RunState::Loading,
            history: Arc::new(Ingest::new().history()),
            revision: next_revision(),
            progress: Arc::default(),
            source,
            published: Arc::default(),
        }
    }

    fn task(&self) -> Task {
        Task {
            source: self.source.clone(),
            progress: Arc::clone(&self.progress),
            published: Arc::clone(&self.published),
        }
    }
}

/// What the threads of a run need.
struct Task {
    source: Source,
    progress: Arc<Progress>,
    published: Arc<Mutex<Published>>,
}

impl Task {
    /// Reads and ingests to the end.
    fn run(&self, wake: &Wake) {
        if self.progress.is_cancelled() {
            return;
        }
        let (sender, messages) = bounded(QUEUE);
        let (source, progress) = (self.source.clone(), Arc::clone(&self.progress));
        std::thread::spawn(move || match source {
            Source::File(path) => vramscope_collector::read_file(&path, &progress, &sender),
            Source::Demo(demo) => vramscope_collector::read_bytes(demo.bytes, &progress, &sender),
            Source::Memory => {}
        });
        self.ingest(&messages, wake);
    }

    fn ingest(&self, messages: &Receiver<SourceMessage>, wake: &Wake) {
        let mut ingest = Ingest::new();
        let begin = Instant::now();
        let mut last = begin;
        for message in messages {
            match message {
                SourceMessage::Batch(batch) => ingest.push(batch),
                SourceMessage::Reset => ingest = Ingest::new(),
                SourceMessage::Info(info) => ingest.set_info(info),
                SourceMessage::Done => return self.publish(&ingest, Some(RunState::Ready), wake),
                SourceMessage::Failed(sentence) => {
                    return self.publish(&ingest, Some(RunState::Failed(sentence)), wake);
                }
            }
            if last.elapsed() >= pause(begin.elapsed()) {
                self.publish(&ingest, None, wake);
                last = Instant::now();
            }
        }
        let sentence = "could not be read: its reader stopped without saying why; please report this, with the file if you can share it";
        self.publish(&ingest, Some(RunState::Failed(sentence.to_owned())), wake);
    }

    fn publish(&self, ingest: &Ingest, state: Option<RunState>, wake: &Wake) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.history = Some(Arc::new(ingest.history()));
        published.state = state.or(published.state.take());
        drop(published);
        wake();
    }
}

/// How long to wait for the next history when reading has taken that long: the first comes soon, later ones keep out of the way.
fn pause(reading: Duration) -> Duration {
    (reading / 4).clamp(PUBLISH_EVERY, PUBLISH_AT_LEAST)
}

/// A number no other history of this program has.
fn next_revision() -> Revision {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Revision(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A short name for a path: its last part.
pub fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::DEMOS;

    fn quiet() -> Wake {
        Arc::new(|| ())
    }

    #[test]
    fn a_demo_loads_to_the_end_and_wakes_the_window() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        let wake: Wake = Arc::new(move || {
            counter.fetch_add(1, Ordering::AcqRel);
        });
        let mut session = Session::open_demo(&DEMOS[2], &wake);
        session.wait();
        let run = &session.runs()[0];
        assert_eq!(run.state, RunState::Ready);
        assert!(run.history.end().0 > 8000);
        assert!(!run.history.lanes().is_empty());
        assert!(wakes.load(Ordering::Acquire) >= 1);
        assert!(!session.poll(), "nothing new after the end");
    }

    #[test]
    fn a_long_reading_is_published_ever_more_rarely_but_never_rarely() {
        let mut at = Duration::ZERO;
        let mut published = 0;
        while at < Duration::from_secs(1) {
            at += pause(at);
            published += 1;
        }
        assert!((8..=16).contains(&published), "{published} in the first second");
        assert_eq!(pause(Duration::ZERO), PUBLISH_EVERY);
        assert_eq!(pause(Duration::from_secs(100)), PUBLISH_AT_LEAST);
    }

    #[test]
    fn a_missing_file_is_a_sentence() {
        let error = Session::open(&[PathBuf::from("no/such/file.pickle")], &quiet()).err();
        assert!(error.is_some_and(|sentence| sentence.contains("no/such/file.pickle")));
    }

    #[test]
    fn a_file_that_is_no_recording_fails_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.pickle");
        std::fs::write(&path, "hello").unwrap();
        let mut session = Session::open(&[path], &quiet()).unwrap();
        session.wait();
        assert!(matches!(&session.runs()[0].state, RunState::Failed(sentence) if !sentence.is_empty()));
    }
}
