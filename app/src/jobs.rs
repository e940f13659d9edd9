//! A small pool for questions that are too slow for a frame. The last answer stays on screen until the next one is there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender, unbounded};

/// Tells the window that there is news. Called from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

type Work = Box<dyn FnOnce() + Send>;

/// The pool. Its threads end when it is dropped and the work at hand is done.
pub struct Jobs {
    queue: Sender<Work>,
    wake: Wake,
    unfinished: Arc<AtomicUsize>,
}

impl Jobs {
    /// A pool of `threads` threads that call `wake` after every answer.
    pub fn new(threads: usize, wake: Wake) -> Self {
        let (queue, work) = unbounded::<Work>();
        for _ in 0..threads {
            let work = work.clone();
            std::thread::spawn(move || {
                for job in work {
                    job();
                }
            });
        }
        Self { queue, wake, unfinished: Arc::default() }
    }

    /// Whether any answer is still on its way.
    pub fn busy(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) > 0
    }

    fn start(&self, work: impl FnOnce() + Send + 'static) {
        let (wake, unfinished) = (Arc::clone(&self.wake), Arc::clone(&self.unfinished));
        unfinished.fetch_add(1, Ordering::AcqRel);
        let job = Box::new(move || {
            work();
            unfinished.fetch_sub(1, Ordering::AcqRel);
            wake();
        });
        // The pool's threads hold the receiving end for as long as this sender lives.
        let _ = self.queue.send(job);
    }
}

/// One question asked again and again with changing parameters `K`, and its latest answer.
///
/// At most one answer is being worked out at a time. A question that changes meanwhile is asked when that answer has come:
/// under steady change the picture lags, but it never starves.
pub struct Latest<K, T> {
    asked: Option<K>,
    answer: Option<(K, T)>,
    inbox: Arc<Mutex<Option<(K, T)>>>,
    lost: Arc<AtomicUsize>,
}

impl<K, T> Default for Latest<K, T> {
    fn default() -> Self {
        Self { asked: None, answer: None, inbox: Arc::default(), lost: Arc::default() }
    }
}

impl<K: Clone + PartialEq + Send + 'static, T: Send + 'static> Latest<K, T> {
    /// The newest answer there is, with the key it belongs to. Starts `work` if the answer for `key` is neither here nor coming.
    pub fn get(&mut self, jobs: &Jobs, key: &K, work: impl FnOnce() -> T + Send + 'static) -> Option<(&K, &T)> {
        if let Some(arrived) = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.asked = None;
            self.answer = Some(arrived);
        } else if self.lost.swap(0, Ordering::AcqRel) > 0 {
            self.asked = None;
        }
        let known = self.answer.as_ref().is_some_and(|(have, _)| have == key);
        if !known && self.asked.is_none() {
            self.asked = Some(key.clone());
            let (key, inbox, lost) = (key.clone(), Arc::clone(&self.inbox), Arc::clone(&self.lost));
            jobs.start(move || match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
                Ok(answer) => *inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, answer)),
                Err(_) => {
                    lost.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        self.answer.as_ref().map(|(key, answer)| (key, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    fn wait(jobs: &Jobs) {
        while jobs.busy() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_last_answer_stays_until_the_next_is_there() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        let jobs = Jobs::new(
            1,
            Arc::new(move || {
                counter.fetch_add(1, Ordering::AcqRel);
            }),
        );
        let mut latest = Latest::default();
        assert_eq!(latest.get(&jobs, &1, || "one"), None);
        wait(&jobs);
        assert_eq!(latest.get(&jobs, &1, || unreachable!()), Some((&1, &"one")));
        let (release, gate) = bounded::<()>(1);
        assert_eq!(
            latest.get(&jobs, &2, move || {
                let _ = gate.recv();
                "two"
            }),
            Some((&1, &"one"))
        );
        // The question changes twice while the second answer is being worked out: only the newest is asked next.
        assert_eq!(latest.get(&jobs, &3, || unreachable!()), Some((&1, &"one")));
        drop(release);
        wait(&jobs);
        assert_eq!(latest.get(&jobs, &4, || "four"), Some((&2, &"two")));
        wait(&jobs);
        assert_eq!(latest.get(&jobs, &4, || unreachable!()), Some((&4, &"four")));
        assert_eq!(wakes.load(Ordering::Acquire), 3);
    }

    #[test]
    fn work_that_panics_neither_hangs_nor_ends_the_pool() {
        let jobs = Jobs::new(1, Arc::new(|| ()));
        let mut latest: Latest<u32, u32> = Latest::default();
        assert_eq!(latest.get(&jobs, &1, || std::panic::resume_unwind(Box::new("lost"))), None);
        wait(&jobs);
        assert_eq!(latest.get(&jobs, &1, || 7), None);
        wait(&jobs);
        assert_eq!(latest.get(&jobs, &1, || 8), Some((&1, &7)));
    }
}
