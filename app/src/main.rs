//! The program `vramscope`: see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    vramscope::commands::main()
}
