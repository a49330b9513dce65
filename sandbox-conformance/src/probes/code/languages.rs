//! Code of each language that the sandbox has.

use sandbox_core::{ErrorKind, SandboxHandle, Stdin};
use sandbox_lang::{CodeRequest, RunCode as _};

use crate::probes::prelude::*;

/// Each sandbox has these.
const REQUIRED: [&str; 2] = ["python", "sh"];

/// Code that prints its argument and its input, and fails with 3.
const CODE: [(&str, &str); 5] = [
    (
        "python",
        "import sys\nprint(sys.argv[1], input())\nsys.exit(3)",
    ),
    ("sh", "read -r line; echo \"$1 $line\"; exit 3"),
    (
        "bash",
        "read -r line; [[ $line ]] && echo \"$1 $line\"; exit 3",
    ),
    (
        "javascript",
        "const text = require('fs').readFileSync(0, 'utf8').trim()\n\
         console.log(process.argv[2], text)\nprocess.exit(3)",
    ),
    ("ruby", "puts \"#{ARGV[0]} #{STDIN.gets.strip}\"\nexit 3"),
];

pub(super) async fn run(sandbox: &SandboxHandle) -> Deviation {
    for (language, code) in CODE {
        let request = CodeRequest::new(language, code).arg("one  argument");
        let request = request.stdin(Stdin::from_bytes("input\n"));
        let ran = match sandbox.run_code(request).await {
            // The second one is of a version that is too old.
            Err(error)
                if !REQUIRED.contains(&language)
                    && [ErrorKind::ProgramNotFound, ErrorKind::LanguageNotSupported]
                        .contains(&error.kind()) =>
            {
                continue;
            }
            ran => ran?,
        };
        let is_right = ran.ran().is_some_and(|ran| {
            ran.stdout_text() == "one  argument input\n" && ran.exit_code() == Some(3)
        });
        if !is_right {
            return Ok(Some(format!("{language}: {ran:?}")));
        }
    }
    Ok(None)
}
