//! Call stacks in words: the one frame that tells most, and the whole stack without the noise of interpreters and unwinders.

use vramscope_trace::{Dictionary, Frame, StackId};

/// What stands for a stack that nobody recorded.
pub const NO_STACK: &str = "no stack recorded";

/// Functions that every stack has and that tell nothing: how the stack was taken, and how Python calls functions.
const NOISE_FUNCTIONS: [&str; 8] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_start",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
];

/// Files of such functions.
const NOISE_FILES: [&str; 10] = [
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
];

/// Functions between an operation and its memory: in every C++ stack, and never what asked for it.
const ALLOCATORS: [&str; 8] = [
    "CachingAllocator",
    "c10::cuda::",
    "c10::StorageImpl",
    "at::detail::empty",
    "at::native::empty",
    "at::empty",
    "at::_ops::empty",
    "at::(anonymous namespace)::wrapper_CUDA",
];

/// Parts of paths that belong to libraries, not to the user.
const LIBRARIES: [&str; 4] = ["site-packages", "dist-packages", "/torch/", "/lib/python3"];

/// A frame's texts.
#[derive(Clone, Copy)]
struct Texts<'a> {
    file: &'a str,
    function: &'a str,
}

fn texts(dictionary: &Dictionary, frame: Frame) -> Texts<'_> {
    Texts { file: dictionary.name(frame.file), function: dictionary.name(frame.function) }
}

impl Texts<'_> {
    fn is_noise(self) -> bool {
        NOISE_FUNCTIONS.iter().any(|noise| self.function.contains(noise))
            || NOISE_FILES.iter().any(|noise| self.file.contains(noise))
    }

    /// Python source that is not a library's.
    fn is_users(self) -> bool {
        let python = self.file.ends_with(".py") || self.file.starts_with("<ipython") || self.file.contains("ipykernel");
        let path = self.file.replace('\\', "/");
        python && !LIBRARIES.iter().any(|library| path.contains(library))
    }

    /// Only fetches memory for something else.
    fn is_allocator(self) -> bool {
        ALLOCATORS.iter().any(|part| self.function.contains(part))
    }

    /// Says nothing at all.
    fn is_blank(self) -> bool {
        matches!(self.function, "" | "??") && matches!(self.file, "" | "??")
    }
}

fn known_frames(dictionary: &Dictionary, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
    dictionary.stack(stack).iter().filter_map(|&frame| dictionary.frame(frame))
}

/// The frame that tells most about a stack: the innermost of the user's own, else the innermost that did more than fetch
/// memory, else the innermost that is not noise. `None` if no stack was recorded, or nothing in it says anything.
pub fn telling_frame(dictionary: &Dictionary, stack: StackId) -> Option<Frame> {
    let says = |frame: &Frame| {
        let texts = texts(dictionary, *frame);
        !texts.is_noise() && !texts.is_blank()
    };
    let mut frames = known_frames(dictionary, stack).filter(says);
    let users = known_frames(dictionary, stack).find(|&frame| texts(dictionary, frame).is_users());
    users
        .or_else(|| {
            known_frames(dictionary, stack).filter(says).find(|&frame| !texts(dictionary, frame).is_allocator())
        })
        .or_else(|| frames.next())
}

/// A frame in short: `train.py:68 train`; only the file's own name, no line where none is known, and of a C++ function no
/// arguments.
pub fn describe(dictionary: &Dictionary, frame: Frame) -> String {
    let Texts { file, function } = texts(dictionary, frame);
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    join(name, frame.line, without_arguments(function))
}

/// A C++ function without its arguments; anything else as it is.
fn without_arguments(function: &str) -> &str {
    let from = function.find("::").unwrap_or(function.len());
    // What stands in parentheses before the name, like an anonymous namespace, is followed by a colon.
    let opening = function[from..].match_indices('(').map(|(at, _)| from + at);
    let mut ends =
        opening.filter(|&at| function[at..].find(')').is_none_or(|end| !function[at + end + 1..].starts_with("::")));
    ends.next().map_or(function, |at| &function[..at])
}

/// A frame in full: the whole path.
pub fn describe_fully(dictionary: &Dictionary, frame: Frame) -> String {
    let Texts { file, function } = texts(dictionary, frame);
    join(file, frame.line, function)
}

fn join(file: &str, line: u32, function: &str) -> String {
    match (matches!(file, "" | "??"), line) {
        (true, _) => function.to_owned(),
        (false, 0) => format!("{file} {function}"),
        (false, line) => format!("{file}:{line} {function}"),
    }
}

/// What a stack is called in a list: its telling frame in short, or [`NO_STACK`].
pub fn title(dictionary: &Dictionary, stack: StackId) -> String {
    telling_frame(dictionary, stack).map_or_else(|| NO_STACK.to_owned(), |frame| describe(dictionary, frame))
}

/// All frames of a stack in full, innermost first, without noise.
pub fn frames(dictionary: &Dictionary, stack: StackId) -> Vec<String> {
    telling_frames(dictionary, stack).map(|frame| describe_fully(dictionary, frame)).collect()
}

/// All frames of a stack in short, innermost first, without noise.
pub fn short_frames(dictionary: &Dictionary, stack: StackId) -> Vec<String> {
    telling_frames(dictionary, stack).map(|frame| describe(dictionary, frame)).collect()
}

fn telling_frames(dictionary: &Dictionary, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
    known_frames(dictionary, stack).filter(|&frame| {
        let texts = texts(dictionary, frame);
        !texts.is_noise() && !texts.is_blank()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_trace::Interner;

    fn dictionary(stacks: &[&[(&str, &str, u32)]]) -> (Dictionary, Vec<StackId>) {
        let mut interner = Interner::new();
        let mut ids = Vec::new();
        for stack in stacks {
            let mut frames = Vec::new();
            for &(file, function, line) in *stack {
                let (file, function) = (interner.name(file), interner.name(function));
                frames.push(interner.frame(Frame { file, function, line }));
            }
            ids.push(interner.stack(&frames));
        }
        (interner.dictionary(), ids)
    }

    #[test]
    fn the_users_own_frame_tells_most() {
        let (dictionary, ids) = dictionary(&[
            &[
                ("??", "torch::unwind::unwind()", 0),
                ("/opt/lib/python3.12/site-packages/torch/nn/linear.py", "forward", 12),
                ("/home/me/train.py", "train", 68),
            ],
            &[
                ("", "torch::CapturedTraceback::gather", 0),
                ("libc10_cuda.so", "c10::cuda::CUDACachingAllocator::malloc(unsigned long)", 0),
                ("libtorch_cuda.so", "at::(anonymous namespace)::structured_mm::run(at::Tensor const&)", 0),
            ],
            &[("libc10_cuda.so", "c10::cuda::CUDACachingAllocator::malloc(unsigned long)", 0)],
            &[("C:\\jobs\\model.py", "step", 3)],
            &[("??", "??", 0)],
            &[],
        ]);
        let titles: Vec<String> = ids.iter().map(|&id| title(&dictionary, id)).collect();
        assert_eq!(
            titles,
            [
                "train.py:68 train",
                "libtorch_cuda.so at::(anonymous namespace)::structured_mm::run",
                "libc10_cuda.so c10::cuda::CUDACachingAllocator::malloc",
                "model.py:3 step",
                NO_STACK,
                NO_STACK
            ]
        );
        assert_eq!(
            frames(&dictionary, ids[0]),
            ["/opt/lib/python3.12/site-packages/torch/nn/linear.py:12 forward", "/home/me/train.py:68 train"]
        );
    }
}
