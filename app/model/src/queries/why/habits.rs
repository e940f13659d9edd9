//! What a job does already: from its settings and from the functions in its stacks. Advice leaves that out.

use vramscope_trace::{AllocatorSettings, FrameId, StackId};

use crate::History;

/// What a job does already. False = not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habits {
    pub(super) expandable_segments: bool,
    pub(super) max_split_size: bool,
    pub(super) checkpointing: bool,
    pub(super) autocast: bool,
    pub(super) fused_optimizer: bool,
    pub(super) small_optimizer: bool,
    pub(super) fused_loss: bool,
    pub(super) flash_attention: bool,
    pub(super) sharding: bool,
    /// The stack that asked computes attention.
    pub(super) asked_by_attention: bool,
    /// The stack that asked computes a loss over classes.
    pub(super) asked_by_loss: bool,
}

impl Habits {
    /// What a history shows. Costs O(frames of its dictionary).
    pub(super) fn seen(history: &History, settings: &AllocatorSettings, asking: StackId) -> Self {
        let dictionary = history.dictionary();
        let conf = settings.conf.as_deref().unwrap_or("");
        let mut habits = Self {
            expandable_segments: settings.expandable_segments || conf.contains("expandable_segments:True"),
            max_split_size: settings.max_split_size.is_some(),
            ..Self::default()
        };
        let texts = |frame: FrameId| {
            let frame = dictionary.frame(frame)?;
            Some((dictionary.name(frame.file), dictionary.name(frame.function)))
        };
        for (file, function) in (0..dictionary.counts().1).filter_map(|frame| texts(FrameId(frame))) {
            habits.note(file, function);
        }
        for (file, function) in dictionary.stack(asking).iter().filter_map(|frame| texts(*frame)) {
            let named = |words: &[&str]| words.iter().any(|word| file.contains(word) || function.contains(word));
            habits.asked_by_attention |= named(&["attention", "attn"]);
            habits.asked_by_loss |= named(&["cross_entropy", "nll_loss", "log_softmax", "CrossEntropy"]);
        }
        habits
    }

    fn note(&mut self, file: &str, function: &str) {
        let file = file.replace('\\', "/");
        self.checkpointing |= file.ends_with("utils/checkpoint.py");
        self.autocast |= file.ends_with("amp/autocast_mode.py");
        self.fused_optimizer |= file.contains("/optim/") && function.starts_with("_fused_");
        self.small_optimizer |= file.contains("bitsandbytes") || file.contains("torchao/optim");
        self.fused_loss |= file.contains("liger_kernel") || file.contains("cut_cross_entropy");
        self.flash_attention |= file.contains("flash_attn")
            || function.contains("flash_attention_forward")
            || function.contains("_efficient_attention");
        self.sharding |= file.contains("/fsdp/") || file.contains("deepspeed");
    }
}
