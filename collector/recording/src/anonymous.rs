//! Hides names: equal words become equal codes, everything else about a text stays.

use std::hash::{BuildHasher, RandomState};

use vramscope_trace::{AllocatorSettings, RunInfo};

/// Words that stay: phases of a training job, actions and settings of the allocator, and what tells a library's source from a
/// user's. All of them are public.
const KEPT: &str = "data forward loss backward optimizer zero_grad validation load other checkpoint step epoch iteration iter \
    batch train eval ProfilerStep snapshot user_defined oom py pyx c cc cpp cu cuh h hpp so rs \
    PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF backend native cudaMallocAsync max_split_size max_split_size_mb \
    max_non_split_rounding_mb garbage_collection_threshold expandable_segments roundup_power2_divisions \
    roundup_bypass_threshold_mb release_lock_on_cudamalloc release_lock_on_hipmalloc pinned_use_cuda_host_register \
    pinned_use_hip_host_register pinned_num_register_threads pinned_use_background_threads \
    graph_capture_record_stream_reuse last_allocator_settings per_process_memory_fraction True False true false \
    site dist packages torch lib python3 ipython ipykernel unwind CapturedTraceback gather gather_with_cpp _start \
    __libc_start_main core boxing pythonrun Modules main Objects call methodobject pycore_ceval ceval cpython abstract \
    c10 cuda at detail native _ops anonymous namespace StorageImpl CachingAllocator CUDACachingAllocator \
    NativeCachingAllocator DeviceCachingAllocator HIPCachingAllocator XPUCachingAllocator";

/// Beginnings of words that stay, for the same reason.
const KEPT_BEGINNINGS: [&str; 7] =
    ["PyEval_", "PyObject_", "PyFunction_", "Register", "Redispatch", "empty", "wrapper_CUDA"];

/// Hides names. One anonymizer gives equal codes for equal words in every file; another gives others, and nothing leads back.
#[derive(Clone, Debug, Default)]
pub struct Anonymizer {
    secret: RandomState,
}

impl Anonymizer {
    /// An anonymizer with a secret of its own, which is kept nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// A text with every word replaced by its code. Words of training phases and file endings stay, so do signs between words,
    /// and numbers outside of paths.
    pub fn text(&self, text: &str) -> String {
        let is_path = text.contains(['/', '\\']);
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if is_sign(first) {
                hidden.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let end = rest.find(is_sign).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let number = !is_path && word.bytes().all(|byte| byte.is_ascii_digit());
            if number || KEPT.split_ascii_whitespace().any(|kept| kept == word) {
                hidden.push_str(word);
            } else {
                hidden.push_str(KEPT_BEGINNINGS.iter().find(|kept| word.starts_with(**kept)).unwrap_or(&""));
                let code = self.secret.hash_one(word) >> 16;
                hidden.push_str(&format!("x{code:012x}"));
            }
            rest = after;
        }
        hidden
    }

    /// Facts about a run without names.
    pub fn info(&self, info: &RunInfo) -> RunInfo {
        let settings = info.settings.as_ref().map(|settings| AllocatorSettings {
            conf: settings.conf.as_ref().map(|conf| self.text(conf)),
            all: settings.all.iter().map(|(name, value)| (self.text(name), self.text(value))).collect(),
            ..settings.clone()
        });
        RunInfo { settings, ..info.clone() }
    }
}

/// Whether a character stands between words.
fn is_sign(c: char) -> bool {
    c == ' ' || c.is_ascii_punctuation() && c != '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_hidden_and_structure_stays() {
        let hide = Anonymizer::new();
        let path = hide.text("/home/mia/secret_model/run7/train_gpt.py");
        for word in ["home", "mia", "secret_model", "run7", "train_gpt", "7"] {
            assert!(!path.split(['/', '.']).any(|part| part == word), "{word} in {path}");
        }
        assert_eq!(path.matches('/').count(), 5);
        assert!(path.ends_with(".py") && path.is_ascii());
        assert_eq!(hide.text("/home/mia/other_file.py").split('/').nth(2), path.split('/').nth(2), "consistent");
        assert_ne!(Anonymizer::new().text("mia"), hide.text("mia"), "nothing leads back");
        assert_eq!(hide.text("forward"), "forward");
        assert_eq!(hide.text("## step 12: backward ##"), "## step 12: backward ##");
        assert_eq!(hide.text(""), "");
        assert!(!hide.text("日本\u{1f600}\n語").contains(['日', '\u{1f600}', '\n']));
        assert!(hide.text("/12/34").starts_with("/x"), "numbers in paths may name people or dates");
    }

    #[test]
    fn library_sources_can_still_be_told_apart() {
        let hide = Anonymizer::new();
        assert!(hide.text("/opt/mia/lib/python3.12/site-packages/torch/nn/x.py").contains("/lib/python3."));
        assert!(hide.text("C:\\mia\\dist-packages\\torch\\y.py").contains("dist-packages\\torch\\"));
        let register = hide.text("RegisterSecretOp.cpp");
        assert!(register.starts_with("Registerx") && !register.contains("Secret"));
    }

    #[test]
    fn settings_stay_readable() {
        let conf = "expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.8";
        assert_eq!(Anonymizer::new().text(conf), conf);
        assert!(!Anonymizer::new().text("backend:mysecret").contains("mysecret"));
    }
}
