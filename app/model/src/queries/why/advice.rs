//! What can be done about a failed allocation: each remedy with its price and where that stands.
//!
//! Savings are never stated here: they overlap and depend on the run. A what-if fills them in.

use super::facts::Facts;
use super::habits::Habits;
use super::words::size;
use super::{Advice, Cause, Growth};
use crate::Phase;

/// How many remedies are shown.
const MOST: usize = 6;

const CUDA_NOTES: &str = "PyTorch, CUDA semantics: https://docs.pytorch.org/docs/stable/notes/cuda.html";
const TUNING: &str = "PyTorch performance tuning guide: https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#pre-allocate-memory-in-case-of-variable-input-length";
const FAQ: &str = "PyTorch FAQ on memory: https://docs.pytorch.org/docs/stable/notes/faq.html";
const OPTIM: &str = "PyTorch, torch.optim: https://docs.pytorch.org/docs/stable/optim.html";
const AMP: &str = "PyTorch, torch.amp: https://docs.pytorch.org/docs/stable/amp.html";
const CHECKPOINT: &str = "PyTorch, torch.utils.checkpoint: https://docs.pytorch.org/docs/stable/checkpoint.html; arXiv 1604.06174, 2205.05198";
const SNAPSHOT: &str =
    "PyTorch, understanding CUDA memory usage: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html";
const DDP: &str = "PyTorch, DistributedDataParallel: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html";

/// A remedy as the table states it.
struct Remedy {
    title: &'static str,
    cost: &'static str,
    source: &'static str,
    setting: Option<&'static str>,
}

const fn remedy(title: &'static str, cost: &'static str, source: &'static str) -> Remedy {
    Remedy { title, cost, source, setting: None }
}

const SMALLER_REQUEST: Remedy = remedy(
    "Make the one request smaller: look at the line that asked for it, and cut its batch, length or classes into chunks",
    "More, smaller operations",
    SNAPSHOT,
);
const CHECK_SIZE: Remedy = remedy(
    "Check the shape at the line that asked: a size was negative, overflowed or multiplied twice",
    "None",
    SNAPSHOT,
);
const OTHERS: Remedy = remedy(
    "Stop the other processes on this card, or use a card (or a MIG slice) of its own",
    "They no longer run beside this job",
    "NVIDIA, nvidia-smi lists them: https://docs.nvidia.com/deploy/nvidia-smi/index.html",
);
const FEWER_BUFFERS: Remedy = remedy(
    "Use fewer communicators, channels or smaller buffers (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS)",
    "Slower collectives",
    "NCCL environment variables: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
);
const LAZY_LOADING: Remedy = remedy(
    "Load CUDA kernels lazily (CUDA_MODULE_LOADING=LAZY, the default since CUDA 12.2)",
    "The first use of each kernel takes longer",
    "CUDA lazy loading: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/lazy-loading.html",
);
const SHARE_POOL: Remedy = remedy(
    "Capture fewer graphs, or let them share one pool (graph_pool_handle, the pool argument of torch.cuda.graph)",
    "Graphs of one pool must be replayed in the order of their capture, never at the same time",
    CUDA_NOTES,
);
const DROP_POOL: Remedy = remedy(
    "Drop graphs and MemPools that are no longer used, then call torch.cuda.empty_cache()",
    "They must be captured or filled again",
    CUDA_NOTES,
);
const SAME_STREAM: Remedy = remedy(
    "Do the work that reserved it on the stream that runs the training",
    "Less overlap of copies and kernels",
    CUDA_NOTES,
);
const EMPTY_AFTER: Remedy = remedy(
    "Call torch.cuda.empty_cache() once after the work on the other stream is done",
    "It waits for the device, and later requests pay for new segments",
    CUDA_NOTES,
);
const EXPANDABLE: Remedy = Remedy {
    setting: Some("expandable_segments:True"),
    ..remedy(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that free pieces can grow together",
        "Experimental; not with CUDA IPC, MemPools or NCCL user buffers; live blocks still pin their pages",
        CUDA_NOTES,
    )
};
const MAX_SPLIT: Remedy = Remedy {
    setting: Some("max_split_size_mb:128"),
    ..remedy(
        "Keep large blocks from being cut up: PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (a last resort)",
        "From none to substantial: more calls to the driver",
        CUDA_NOTES,
    )
};
const LONGEST_FIRST: Remedy = remedy(
    "Run one forward and backward pass with the longest batch first, so that segments have their largest size from the start",
    "The first step takes the most memory",
    TUNING,
);
const BUCKETS: Remedy = remedy(
    "Group batches by length, pad to a few fixed lengths, and cap the longest",
    "Some padding; the order of samples is less random",
    TUNING,
);
const TOKEN_BATCHES: Remedy = remedy(
    "Fill batches by tokens instead of samples, so that long samples come in smaller batches",
    "Batches of varying size",
    TUNING,
);
const DETACH: Remedy = remedy(
    "Keep numbers, not tensors: .item() or .detach() for what is logged or summed, and drop lists of outputs",
    ".item() waits for the device",
    FAQ,
);
const DELETE: Remedy =
    remedy("Drop outputs before the backward pass and between steps (del outputs); keep only the loss", "None", FAQ);
const NO_GRAD: Remedy = remedy(
    "Run validation under torch.inference_mode() or torch.no_grad()",
    "None",
    "PyTorch, autograd mechanics: https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
);
const VALIDATION_BATCH: Remedy = remedy(
    "Use a smaller batch in validation, and move its outputs to the host as they come",
    "Validation takes longer",
    FAQ,
);
const FUSED_OPTIMIZER: Remedy = remedy(
    "Use the fused optimizer (fused=True): it needs no temporary copy of the parameters' size",
    "None on CUDA",
    OPTIM,
);
const SMALL_OPTIMIZER: Remedy = remedy(
    "Use an optimizer with smaller state (8-bit Adam)",
    "A small risk for quality; embeddings stay at 32 bits",
    "arXiv 2110.02861",
);
const SHARD: Remedy = remedy(
    "Shard optimizer state, gradients and parameters over devices (ZeRO, FSDP)",
    "Up to 1.5 times the communication",
    "arXiv 1910.02054",
);
const MICRO_BATCH: Remedy = remedy(
    "Use smaller micro-batches and accumulate their gradients",
    "More launches; gradients stay between micro-batches; without no_sync each one synchronises",
    DDP,
);
const CHECKPOINTING: Remedy = remedy(
    "Checkpoint activations: keep a layer's input and recompute the rest in the backward pass",
    "One more forward pass of those layers, about 30 % of their compute",
    CHECKPOINT,
);
const AUTOCAST: Remedy = remedy(
    "Compute in bf16 or fp16 (torch.autocast): activations of matrix products halve",
    "Parameters and optimizer state do not shrink; fp16 needs loss scaling",
    AMP,
);
const FLASH: Remedy = remedy(
    "Use scaled_dot_product_attention with a flash or memory-efficient kernel: no matrix of length by length",
    "None; it is usually faster",
    "arXiv 2205.14135",
);
const FUSED_LOSS: Remedy = remedy(
    "Compute classifier and cross-entropy in one fused or chunked kernel, so that logits are never whole",
    "Restrictions of those kernels",
    "arXiv 2410.10989, 2411.09009",
);
const LOAD_LATER: Remedy = remedy(
    "Build the model on the meta device and load weights shard by shard, or memory-mapped",
    "Loading takes more care",
    "PyTorch, torch.load with mmap and the meta device: https://docs.pytorch.org/tutorials/recipes/recipes/module_load_state_dict_tips.html",
);
const NO_SPILL: Remedy = remedy(
    "Turn the driver's fallback to system memory off, so that the limit is the card and its figures hold",
    "What spilled until now fails instead",
    "NVIDIA, system memory fallback: https://nvidia.custhelp.com/app/answers/detail/a_id/5490",
);
const TELL_MORE: Remedy = remedy(
    "Record with driver counters beside it, or name the card's size, so that the limit can be told",
    "None",
    SNAPSHOT,
);

/// What to do about a cause and a growth, in a phase; nothing that is done already.
pub(super) fn choose(
    cause: Option<Cause>,
    growth: Growth,
    phase: Phase,
    facts: &Facts,
    habits: &Habits,
) -> Vec<Advice> {
    let Some(cause) = cause else { return Vec::new() };
    let mut list: Vec<Advice> = of_growth(growth, habits).into_iter().map(Advice::from).collect();
    if cause == Cause::MemoryFraction {
        list.insert(usize::from(growth == Growth::Leak).min(list.len()), raise_fraction(facts));
    }
    let remedies = of_cause(cause, facts, habits).into_iter().chain(less_memory(cause, phase, habits));
    for advice in remedies.map(Advice::from) {
        if !list.iter().any(|known| known.title == advice.title) {
            list.push(advice);
        }
    }
    list.truncate(MOST);
    list
}

impl From<Remedy> for Advice {
    fn from(remedy: Remedy) -> Self {
        Self {
            title: remedy.title.to_owned(),
            effect_bytes: None,
            cost: remedy.cost,
            source: remedy.source,
            setting: remedy.setting,
        }
    }
}

/// A limit of the program's own can be moved, as far as the card goes.
fn raise_fraction(facts: &Facts) -> Advice {
    let least = facts.reserved.zip(facts.segment).map(|(reserved, segment)| reserved.saturating_add(segment));
    let to = least.map_or_else(String::new, |least| format!(" to at least {} of the card", size(least)));
    Advice {
        title: format!(
            "Raise the memory fraction{to} (set_per_process_memory_fraction or per_process_memory_fraction)"
        ),
        effect_bytes: None,
        cost: "Less of the card is left for other processes",
        source: CUDA_NOTES,
        setting: None,
    }
}

fn of_growth(growth: Growth, habits: &Habits) -> Vec<Remedy> {
    match growth {
        Growth::Leak => vec![DETACH, DELETE],
        Growth::StateGrowth => [
            (SMALL_OPTIMIZER, habits.small_optimizer),
            (FUSED_OPTIMIZER, habits.fused_optimizer),
            (SHARD, habits.sharding),
        ]
        .into_iter()
        .filter_map(|(remedy, done)| (!done).then_some(remedy))
        .collect(),
        Growth::LongerInput => vec![BUCKETS, TOKEN_BATCHES, LONGEST_FIRST],
        Growth::Validation => vec![NO_GRAD, VALIDATION_BATCH],
        Growth::None => Vec::new(),
    }
}

fn of_cause(cause: Cause, facts: &Facts, habits: &Habits) -> Vec<Remedy> {
    let mut pieces = Vec::new();
    if !habits.expandable_segments {
        pieces.push(EXPANDABLE);
    }
    // Free pieces matter where together they would have been enough.
    let in_pieces = facts.free_inside.zip(facts.segment).is_some_and(|(free, segment)| free >= segment);
    match cause {
        Cause::LargerThanCard if facts.absurd => vec![CHECK_SIZE],
        Cause::LargerThanCard => vec![SMALLER_REQUEST],
        Cause::OtherProcesses => vec![OTHERS],
        Cause::NonFramework => vec![FEWER_BUFFERS, LAZY_LOADING],
        Cause::PrivatePool => vec![SHARE_POOL, DROP_POOL],
        Cause::OtherStream => vec![SAME_STREAM, EMPTY_AFTER],
        Cause::Fragmentation => {
            pieces.extend([LONGEST_FIRST, BUCKETS]);
            if !habits.max_split_size && !habits.expandable_segments {
                pieces.push(MAX_SPLIT);
            }
            pieces
        }
        Cause::MemoryFraction | Cause::Capacity if in_pieces => pieces,
        Cause::MemoryFraction | Cause::Capacity => Vec::new(),
        Cause::Unknown if facts.card.is_some_and(|card| facts.allocated.max(facts.reserved) > Some(card)) => {
            vec![NO_SPILL]
        }
        Cause::Unknown => vec![TELL_MORE],
    }
}

/// Ways to need less, by where the peak is.
fn less_memory(cause: Cause, phase: Phase, habits: &Habits) -> Vec<Remedy> {
    if matches!(cause, Cause::PrivatePool | Cause::OtherStream | Cause::Fragmentation) {
        return Vec::new();
    }
    let flash = (FLASH, habits.flash_attention || !habits.asked_by_attention);
    let fused_loss = (FUSED_LOSS, habits.fused_loss || !habits.asked_by_loss && phase != Phase::Loss);
    let list = match (cause, phase) {
        (Cause::LargerThanCard, _) => vec![flash, fused_loss],
        (_, Phase::Optimizer) => vec![
            (FUSED_OPTIMIZER, habits.fused_optimizer),
            (SMALL_OPTIMIZER, habits.small_optimizer),
            (SHARD, habits.sharding),
        ],
        (_, Phase::Load) => vec![(LOAD_LATER, false), (SHARD, habits.sharding)],
        (_, Phase::Validation) => vec![(NO_GRAD, false), (VALIDATION_BATCH, false)],
        _ => vec![
            flash,
            fused_loss,
            (CHECKPOINTING, habits.checkpointing),
            (AUTOCAST, habits.autocast),
            (MICRO_BATCH, false),
        ],
    };
    list.into_iter().filter_map(|(remedy, done)| (!done).then_some(remedy)).collect()
}
