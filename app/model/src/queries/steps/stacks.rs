//! Phases from call stacks: module calls, the backward engine, optimizers, loaders.

use rustc_hash::FxHashMap;
use vramscope_trace::{Dictionary, StackId};

use super::ops::Ops;
use super::{Evidence, Label, Phase, StepSource};
use crate::History;

/// How many operations are looked at between two looks at the cancel flag.
const STRIDE: usize = 1 << 16;

/// Labels from stacks; an inner `None` when no stack tells enough, an outer one when cancelled.
pub(super) fn evidence(history: &History, ops: &Ops, cancel: &dyn Fn() -> bool) -> Option<Option<Evidence>> {
    let dictionary = history.dictionary();
    let mut known = FxHashMap::<StackId, Label>::default();
    let mut labels = Vec::with_capacity(ops.len());
    let (mut told, mut passes, mut updates) = (0usize, 0usize, 0usize);
    for op in 0..ops.len() {
        if op % STRIDE == 0 && cancel() {
            return None;
        }
        let stack = ops.stack(op);
        if stack != StackId::NONE {
            told += 1;
        }
        let label = *known.entry(stack).or_insert_with(|| label_of(dictionary, stack));
        match label {
            Label::Is(Phase::Forward | Phase::Backward | Phase::Validation, _) => passes += 1,
            Label::Is(Phase::Optimizer | Phase::ZeroGrad, _) => updates += 1,
            _ => {}
        }
        labels.push(label);
    }
    if passes + updates == 0 || told * 8 < ops.len() {
        return Some(None);
    }
    engine_without_frames(ops, &mut labels);
    let confidence = if passes > 0 && updates > 0 { 0.95 } else { 0.8 };
    Some(Some(Evidence { source: StepSource::Stacks, labels, starts: None, confidence }))
}

/// The backward engine's own threads have no Python frames: where others have stacks, an allocation without one is its.
/// A free without one is, too, where one of its allocations came before.
fn engine_without_frames(ops: &Ops, labels: &mut [Label]) {
    let mut in_engine = true;
    for (op, label) in labels.iter_mut().enumerate() {
        let bare = ops.stack(op) == StackId::NONE;
        in_engine = bare && (in_engine || ops.ops[op].allocates);
        if in_engine {
            *label = Label::Is(Phase::Backward, 0);
        }
    }
}

/// What a stack tells. Frames come innermost first: the innermost that says something counts, but recomputation (a module
/// called by the backward engine) is backward, and a module called by an evaluation loop is validation.
fn label_of(dictionary: &Dictionary, stack: StackId) -> Label {
    let mut label = Label::Open;
    let mut site_next = false;
    for frame_id in dictionary.stack(stack) {
        let Some(frame) = dictionary.frame(*frame_id) else { continue };
        let said = frame_says(dictionary.name(frame.file), dictionary.name(frame.function));
        if site_next && said != Some(Phase::Forward) && !dictionary.name(frame.file).starts_with("??") {
            site_next = false;
            if let Label::Is(Phase::Forward, site) = &mut label {
                *site = frame_id.0 + 1;
            }
        }
        match (label, said) {
            (_, Some(Phase::Backward)) => return Label::Is(Phase::Backward, 0),
            (Label::Open | Label::Is(Phase::Forward, _), Some(Phase::Validation)) => {
                label = Label::Is(Phase::Validation, 0);
            }
            (Label::Open | Label::Is(Phase::Forward, _), Some(Phase::Forward)) => {
                label = Label::Is(Phase::Forward, 0);
                site_next = true;
            }
            (Label::Open, Some(phase)) => label = Label::Is(phase, 0),
            _ => {}
        }
    }
    label
}

/// What one frame tells.
fn frame_says(file: &str, function: &str) -> Option<Phase> {
    if function.contains("::") {
        let engine = function.contains("torch::autograd::Engine::") || function.contains("THPEngine_run_backward");
        return engine.then_some(Phase::Backward);
    }
    let function = function.rsplit('.').next().unwrap_or(function);
    let in_torch = |part: &str| {
        file.split_once("torch").is_some_and(|(_, rest)| rest.contains(part) || rest.replace('\\', "/").contains(part))
    };
    if function == "zero_grad" {
        return Some(Phase::ZeroGrad);
    }
    if in_torch("nn/modules/module.py") {
        return match function {
            "_call_impl" | "_wrapped_call_impl" | "_slow_forward" | "__call__" => Some(Phase::Forward),
            "_apply" | "convert" | "to" | "cuda" | "load_state_dict" => Some(Phase::Load),
            "state_dict" => Some(Phase::Checkpoint),
            _ => None,
        };
    }
    if in_torch("autograd/__init__.py") && matches!(function, "backward" | "grad" | "_make_grads")
        || in_torch("autograd/graph.py") && function == "_engine_run_backward"
        || in_torch("_tensor.py") && function == "backward"
        || in_torch("utils/checkpoint.py") && matches!(function, "unpack_hook" | "recompute_fn" | "backward")
    {
        return Some(Phase::Backward);
    }
    if in_torch("/optim/") && function != "state_dict"
        || function == "step" && (file.contains("optim") || file.contains("adam"))
        || in_torch("grad_scaler.py") && matches!(function, "step" | "unscale_" | "update")
    {
        return Some(if function == "load_state_dict" { Phase::Load } else { Phase::Optimizer });
    }
    if in_torch("nn/utils/clip_grad.py") {
        return Some(Phase::Other);
    }
    if in_torch("utils/data/") {
        return Some(Phase::Data);
    }
    if in_torch("nn/modules/loss.py") {
        return Some(Phase::Loss);
    }
    if in_torch("serialization.py") {
        return match function {
            "save" | "_save" | "_legacy_save" => Some(Phase::Checkpoint),
            "load" | "_load" | "_legacy_load" => Some(Phase::Load),
            _ => None,
        };
    }
    named(function)
}

/// What a function of the user's own is likely to be, by its name.
fn named(function: &str) -> Option<Phase> {
    match function {
        "from_pretrained" | "load_model" | "load_checkpoint" | "load_weights" => Some(Phase::Load),
        "save_checkpoint" | "save_model" | "save_pretrained" => Some(Phase::Checkpoint),
        "validate" | "validation_step" | "validation_epoch" | "evaluate" | "evaluation_loop" | "evaluation_step"
        | "eval_step" | "eval_epoch" | "run_validation" | "run_evaluation" | "prediction_step" => {
            Some(Phase::Validation)
        }
        _ => None,
    }
}
