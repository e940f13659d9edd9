//! The recordings that come with the program, so that there is something to look at without a GPU.

/// A recording inside the program.
#[derive(Debug)]
pub struct Demo {
    /// What the command line calls it.
    pub name: &'static str,
    /// What the start page calls it.
    pub title: &'static str,
    /// What there is to see, in one sentence.
    pub story: &'static str,
    /// The file's bytes.
    pub bytes: &'static [u8],
}

/// All of them; the first is the one that `--demo` opens.
pub const DEMOS: [Demo; 4] = [
    Demo {
        name: "varlen_default",
        title: "Batches of varying length",
        story: "Free pieces rarely fit the next batch, so memory is reserved that hardly gets used.",
        bytes: include_bytes!("../../assets/demos/varlen_default.pickle.gz"),
    },
    Demo {
        name: "grow_oom",
        title: "Growing until it fails",
        story: "Sequences get longer step by step, until one allocation finds no room.",
        bytes: include_bytes!("../../assets/demos/grow_oom.pickle.gz"),
    },
    Demo {
        name: "gpt_fp32",
        title: "A small GPT, six steps",
        story: "Activations rise in forward and fall in backward; optimizer state comes to stay.",
        bytes: include_bytes!("../../assets/demos/gpt_fp32.pickle.gz"),
    },
    Demo {
        name: "cuda_graph",
        title: "CUDA graphs",
        story: "A captured graph keeps its private pool: what is free there serves nobody else.",
        bytes: include_bytes!("../../assets/demos/cuda_graph.pickle.gz"),
    },
];

/// The demo of that name; the error lists the names there are.
pub fn find(name: &str) -> Result<&'static Demo, String> {
    DEMOS.iter().find(|demo| demo.name == name).ok_or_else(|| {
        let names: Vec<_> = DEMOS.iter().map(|demo| demo.name).collect();
        format!("there is no demo recording \u{201c}{name}\u{201d}: choose one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_wrong_name_lists_the_right_ones() {
        assert_eq!(super::find("gpt_fp32").map(|demo| demo.title), Ok("A small GPT, six steps"));
        assert!(super::find("gtp").is_err_and(|sentence| sentence.contains("gpt_fp32")));
    }
}
