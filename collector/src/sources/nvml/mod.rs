//! NVIDIA's management library: what the driver itself counts, polled for every GPU and every slice.
//!
//! GPUs are known by UUID and keep their place when others drop out; one that is lost keeps its last good figures, marked as lost.
//! Only what changed becomes an event. That NVML is not there at all is an ordinary state with a sentence, see [`NvmlSource::open`].

mod gpu;
mod host;

use std::ffi::OsStr;
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crossbeam_channel::Sender;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use rustc_hash::FxHashMap;
use vramscope_trace::{
    Batch, Counter, DeviceId, Event, EventKind, Interner, Origin, Problem, ProblemKind, ProcessId, Progress,
    SourceMessage, TimeNs,
};

pub use gpu::{Gpu, GpuProcess, Memory, Missing, State};
pub use host::Whose;

use host::Host;

/// Shortest and longest time between two polls: 20 to 2 a second.
const WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Polls after which devices are looked for even if their number has not changed.
const RECOUNT: u32 = 64;

/// Where to find things; tests bring their own.
#[derive(Clone, Debug)]
pub struct Places {
    /// The library; `None` = wherever the system has it.
    pub library: Option<PathBuf>,
    /// The folder of process files.
    pub proc: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { library: None, proc: PathBuf::from("/proc") }
    }
}

/// NVML, polled.
pub struct NvmlSource {
    nvml: Nvml,
    host: Host,
    gpus: Vec<Gpu>,
    /// How each one's memory was known when that was last said.
    told: Vec<Option<Discriminant<Memory>>>,
    counted: Option<u32>,
    polls: u32,
    wait: Duration,
    last: FxHashMap<(usize, ProcessId, Counter), u64>,
    problems: Vec<Problem>,
}

impl NvmlSource {
    /// Opens the library.
    ///
    /// # Errors
    /// A sentence for people: there is no library, no driver, or no right to ask.
    pub fn open(places: &Places) -> Result<Self, String> {
        let opened = match &places.library {
            Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
            // The plain name is only there where the driver's development files are.
            None => Nvml::builder().lib_path(OsStr::new("libnvidia-ml.so.1")).init().or_else(|_| Nvml::init()),
        };
        let nvml = opened.map_err(|error| absence(&error))?;
        Ok(Self {
            nvml,
            host: Host::new(&places.proc),
            gpus: Vec::new(),
            told: Vec::new(),
            counted: None,
            polls: 0,
            wait: WAIT.0,
            last: FxHashMap::default(),
            problems: Vec::new(),
        })
    }

    /// Every GPU and slice seen so far; the place in the list is the device number of its events.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// How long to wait until the next poll: short while memory moves, longer and longer while nothing does.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// What was odd since the last call.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Asks for everything, and appends to `out` what changed.
    pub fn poll(&mut self, time: TimeNs, names: &mut Interner, out: &mut Vec<Event>) {
        let before = out.len();
        match self.nvml.device_count() {
            Ok(count) if self.counted != Some(count) || self.polls.is_multiple_of(RECOUNT) => {
                self.counted = Some(count);
                self.count(count);
            }
            Ok(_) => {}
            Err(error) => Problem::note(&mut self.problems, ProblemKind::UnknownKey, 1, || {
                format!("NVML cannot count the devices: {error}")
            }),
        }
        self.polls = self.polls.wrapping_add(1);
        for index in 0..self.gpus.len() {
            self.ask(index, time, names, out);
        }
        let moved = out[before..]
            .iter()
            .any(|event| matches!(event.kind, EventKind::CounterSample { counter, .. } if is_memory(counter)));
        self.wait = if moved { WAIT.0 } else { self.wait.mul_f32(1.5).min(WAIT.1) };
    }

    /// Looks for devices that are new.
    fn count(&mut self, count: u32) {
        let mut found = Vec::new();
        for index in 0..count {
            let Ok(device) = self.nvml.device_by_index(index) else { continue };
            let Ok(uuid) = device.uuid() else { continue };
            let name = device.name().unwrap_or_default();
            found.push((uuid.clone(), name, None));
            let slices = if device.mig_mode().is_ok_and(|mode| mode.current != 0) {
                device.mig_device_count().unwrap_or(0)
            } else {
                0
            };
            for index in 0..slices {
                let Ok(slice) = device.mig_device_by_index(index) else { continue };
                if let Ok(slice_uuid) = slice.uuid() {
                    found.push((slice_uuid, slice.name().unwrap_or_default(), Some(uuid.clone())));
                }
            }
        }
        for (uuid, name, slice_of) in found {
            if self.gpus.iter().all(|gpu| gpu.uuid != uuid) {
                self.gpus.push(Gpu::new(uuid, name, slice_of));
                self.told.push(None);
            }
        }
    }

    fn ask(&mut self, index: usize, time: TimeNs, names: &mut Interner, out: &mut Vec<Event>) {
        let gpu = &mut self.gpus[index];
        let was = gpu.state;
        let answered = gpu.read(&self.nvml, &self.host).is_ok();
        gpu.state = match (answered, was) {
            (true, _) => State::Answering,
            (false, State::Lost { .. }) => was,
            (false, State::Answering) => State::Lost { since: time },
        };
        let mut say = |process, kind| {
            out.push(Event {
                time: Some(time),
                process: ProcessId(process),
                device: DeviceId(index as u16),
                stream: None,
                origin: Origin::Nvml,
                kind,
            });
        };
        let mut mark = |text: String| say(0, EventKind::Mark { name: names.name(&text) });
        match (was, gpu.state) {
            (State::Answering, State::Lost { .. }) => mark(format!("{} is lost", gpu.uuid)),
            (State::Lost { .. }, State::Answering) => mark(format!("{} answers again", gpu.uuid)),
            _ => {}
        }
        if !answered {
            return;
        }
        let known = Some(discriminant(&gpu.memory));
        if std::mem::replace(&mut self.told[index], known) != known {
            mark(format!("{}: {}", gpu.uuid, how_known(&gpu.memory)));
        }
        let mut samples = samples(gpu);
        for process in gpu.processes.as_deref().unwrap_or_default() {
            let Some(used) = process.used else { continue };
            samples.push((ProcessId(process.pid), Counter::ProcessUsed, used));
            if gpu.total().is_some_and(|total| used > total) {
                Problem::note(&mut self.problems, ProblemKind::OverCapacity, 1, || {
                    format!(
                        "process {} is said to use {used} bytes of a device of {} bytes",
                        process.pid,
                        gpu.total().unwrap_or(0)
                    )
                });
            }
        }
        // A process that is no longer listed holds nothing any more.
        for &(at, process, counter) in self.last.keys() {
            let listed = samples.iter().any(|&(known, what, _)| (known, what) == (process, counter));
            let silent = gpu.processes.as_ref().map_or(true, |list| list.iter().any(|known| known.pid == process.0));
            if at == index && counter == Counter::ProcessUsed && !listed && !silent {
                samples.push((process, counter, 0));
            }
        }
        for (process, counter, value) in samples {
            if self.last.insert((index, process, counter), value) != Some(value) {
                say(process.0, EventKind::CounterSample { counter, value });
            }
        }
    }
}

fn is_memory(counter: Counter) -> bool {
    matches!(counter, Counter::DeviceUsed | Counter::DeviceFree | Counter::DeviceReserved | Counter::ProcessUsed)
}

/// The device-wide figures that are known.
fn samples(gpu: &Gpu) -> Vec<(ProcessId, Counter, u64)> {
    let mut samples = Vec::new();
    let mut add = |counter, value: Option<u64>| samples.extend(value.map(|value| (ProcessId(0), counter, value)));
    let (used, free, reserved) = match gpu.memory {
        Memory::Apart { reserved, used, free, .. } => (Some(used), Some(free), Some(reserved)),
        Memory::Together { used, free, .. } => (Some(used), Some(free), None),
        Memory::Unified { available, .. } => (gpu.process_bytes(), Some(available), None),
        Memory::Unknown(_) => (None, None, None),
    };
    add(Counter::DeviceTotal, gpu.total());
    add(Counter::DeviceUsed, used);
    add(Counter::DeviceFree, free);
    add(Counter::DeviceReserved, reserved);
    let known = |field: &Result<u32, Missing>| field.as_ref().ok().map(|&value| u64::from(value));
    add(Counter::BusyPercent, known(&gpu.busy));
    add(Counter::Temperature, known(&gpu.temperature));
    add(Counter::Power, known(&gpu.power));
    samples
}

/// Where the figures of a device's memory come from, for people.
fn how_known(memory: &Memory) -> &'static str {
    match memory {
        Memory::Apart { .. } => "memory by NVML, what the driver keeps told apart",
        Memory::Together { .. } => "memory by NVML's older call, what the driver keeps counts as used",
        Memory::Unified { .. } => "unified memory: total and free are the system's, used is the sum of the processes",
        Memory::Unknown(Missing::NotSupported) => "the driver does not tell its memory",
        Memory::Unknown(Missing::Failed(_)) => "its memory cannot be read",
    }
}

/// Why there is no NVML, in a sentence.
fn absence(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            "NVML is not present on this machine: no NVIDIA driver is installed, or it is a device without it (Jetson). Recordings can be opened all the same.".to_owned()
        }
        NvmlError::DriverNotLoaded => "NVML is present, but the NVIDIA driver is not loaded.".to_owned(),
        NvmlError::NoPermission => "NVML is present, but this user may not ask the NVIDIA driver.".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "NVML and the loaded NVIDIA driver are of different versions; a restart after a driver update mends that.".to_owned()
        }
        error => format!("NVML does not start: {error}."),
    }
}

/// Unix time in ns.
fn now() -> TimeNs {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    TimeNs(since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)))
}

/// Polls until `progress` is cancelled. A live source does not wait for its listener: what finds no room is left out, and the next
/// poll says it again.
pub fn follow(places: &Places, progress: &Progress, out: &Sender<SourceMessage>) {
    let mut source = match NvmlSource::open(places) {
        Ok(source) => source,
        Err(sentence) => return drop(out.send(SourceMessage::Failed(sentence))),
    };
    let mut names = Interner::new();
    while !progress.is_cancelled() {
        let mut events = Vec::new();
        source.poll(now(), &mut names, &mut events);
        let problems = source.take_problems();
        if !events.is_empty() || !problems.is_empty() {
            let batch = Batch { dictionary: names.take_chunks(), events, problems };
            if out.send(SourceMessage::Batch(batch)).is_err() {
                return;
            }
        }
        std::thread::sleep(source.wait());
    }
    drop(out.send(SourceMessage::Done));
}
