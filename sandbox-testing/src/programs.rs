//! A program of each language: its arguments and input, and an error with the line of the code.

use sandbox_core::{SandboxHandle, Stdin};
use sandbox_lang::{CodeRequest, CodeResult, RunCode};

/// What a language is tested with.
#[derive(Debug)]
pub struct LanguagePrograms {
    /// The name of the language, or an alias.
    pub language: &'static str,
    /// Prints its first argument, a colon, and the line of its standard input.
    pub echo: &'static str,
    /// A file beside `echo`, which it needs.
    pub module: Option<(&'static str, &'static str)>,
    /// Fails, or does not compile, because of its third line.
    pub failing: &'static str,
    /// What the message of `failing` has, with the number of the line.
    pub error: &'static str,
}

/// All languages of `sandbox-lang`.
pub const PROGRAMS: &[LanguagePrograms] = &[
    LanguagePrograms {
        language: "python",
        echo: "import sys\nprint(f'{sys.argv[1]}: {input()}')\n",
        module: None,
        failing: "from __future__ import annotations\n\nraise ValueError('here')\n",
        error: "run-code.py\", line 3, in <module>",
    },
    LanguagePrograms {
        language: "js",
        echo: "const line = require('fs').readFileSync(0, 'utf8').trim();\n\
               console.log(`${process.argv[2]}: ${line}`);\n",
        module: None,
        failing: "'use strict';\n\nthrow new Error('here');\n",
        error: ".js:3\n",
    },
    LanguagePrograms {
        language: "ts",
        echo: "import { readFileSync } from 'node:fs';\n\
               const line: string = readFileSync(0, 'utf8').trim();\n\
               console.log(`${process.argv[2] as string}: ${line}`);\n",
        module: None,
        failing: "const text: string = 'here';\n\nthrow new Error(text);\n",
        error: ".ts:3\n",
    },
    LanguagePrograms {
        language: "java",
        echo: "import java.util.Scanner;\n\
               // public class Decoy\n\
               public class Echo {\n\
                 public static void main(String[] arguments) {\n\
                   System.out.println(Helper.join(arguments[0], new Scanner(System.in).nextLine()));\n\
                 }\n\
               }\n",
        module: Some((
            "Helper.java",
            "class Helper { static String join(String a, String b) { return a + \": \" + b; } }",
        )),
        failing: "public class Failing {\n  public static void main(String[] arguments) {\n    throw new RuntimeException(\"here\");\n  }\n}\n",
        error: "Failing.java:3)",
    },
    LanguagePrograms {
        language: "c",
        echo: "#include <stdio.h>\n#include <math.h>\n#include \"format.h\"\n\
               int main(int count, char **arguments) {\n\
                 char line[99];\n\
                 volatile double four = 4;\n\
                 if (!fgets(line, sizeof line, stdin) || sqrt(four) != count) return 1;\n\
                 printf(FORMAT, arguments[1], line);\n}\n",
        module: Some(("format.h", "#define FORMAT \"%s: %s\"\n")),
        failing: "int main(void) {\n  int x = 1;\n  return missing;\n}\n",
        error: "main.c:3:10: error",
    },
    LanguagePrograms {
        language: "c++",
        echo: "#include <iostream>\n#include <string>\n\
               int main(int, char **arguments) {\n\
                 std::string line;\n\
                 if (std::getline(std::cin, line)) std::cout << arguments[1] << \": \" << line << '\\n';\n}\n",
        module: None,
        failing: "int main() {\n  int x = 1;\n  return missing;\n}\n",
        error: "main.cpp:3:10: error",
    },
    LanguagePrograms {
        language: "golang",
        echo: "package main\nimport (\n\"bufio\"\n\"fmt\"\n\"os\"\n)\n\
               func main() {\n\
               line, _ := bufio.NewReader(os.Stdin).ReadString('\\n')\n\
               fmt.Print(os.Args[1], \": \", line)\n}\n",
        module: None,
        failing: "package main\nfunc main() {\n\tmissing()\n}\n",
        error: "main.go:3:2: undefined: missing",
    },
    LanguagePrograms {
        language: "rust",
        echo: "fn main() {\n\
               let mut line = String::new();\n\
               std::io::stdin().read_line(&mut line).unwrap();\n\
               print!(\"{}: {line}\", std::env::args().nth(1).unwrap());\n}\n",
        module: None,
        failing: "fn main() {\n    let text = \"here\";\n    missing(text);\n}\n",
        error: "main.rs:3:5",
    },
    LanguagePrograms {
        language: "ruby",
        echo: "puts \"#{ARGV[0]}: #{STDIN.gets.chomp}\"\n",
        module: None,
        failing: "text = 'here'\n\nraise text\n",
        error: ".rb:3:in",
    },
    // R tells the call that failed, and no line.
    LanguagePrograms {
        language: "r",
        echo: "line <- readLines(file('stdin'), 1)\n\
               cat(commandArgs(trailingOnly = TRUE)[1], ': ', line, '\\n', sep = '')\n",
        module: None,
        failing: "text <- 'here'\n\nas.missing(text)\n",
        error: "as.missing(text)",
    },
    LanguagePrograms {
        language: "sh",
        echo: "read -r line\necho \"$1: $line\"\n",
        module: None,
        failing: "text=here\n\nno-such-program $text\n",
        error: "3: no-such-program",
    },
    LanguagePrograms {
        language: "bash",
        echo: "read -r line\ntexts=(\"$1\" \"$line\")\necho \"${texts[0]}: ${texts[1]}\"\n",
        module: None,
        failing: "text=here\n\nno-such-program $text\n",
        error: "3: no-such-program",
    },
];

/// Asserts that a sandbox runs the programs of a language. `adapt` changes the requests.
///
/// # Panics
///
/// If it does not, or if there are no such programs.
pub async fn assert_language_runs(
    sandbox: &SandboxHandle,
    language: &str,
    adapt: impl Fn(CodeRequest) -> CodeRequest,
) {
    let programs = PROGRAMS.iter().find(|one| one.language == language);
    let programs = programs.unwrap_or_else(|| panic!("no program of {language}"));
    let run = async |request: CodeRequest| {
        let ran = sandbox.run_code(adapt(request)).await;
        ran.unwrap_or_else(|error| panic!("{language}: {error}"))
    };
    let mut request = CodeRequest::new(language, programs.echo).arg("an argument");
    if let Some((name, content)) = programs.module {
        request = request.module(name, content);
    }
    let result = run(request.stdin(Stdin::from_bytes("a line\n"))).await;
    let echoed = result
        .check()
        .unwrap_or_else(|error| panic!("{language}: {error}"));
    assert_eq!(
        echoed.stdout_text(),
        "an argument: a line\n",
        "{language}: {echoed:?}"
    );
    assert_eq!(echoed.stderr_text(), "", "{language}");
    let result = run(CodeRequest::new(language, programs.failing)).await;
    assert!(!result.success(), "{language}: {result:?}");
    let told = match &result {
        CodeResult::CompileFailed { compiler } => compiler.output(),
        _ => result.ran().expect("it ran").stderr_text(),
    };
    assert!(told.contains(programs.error), "{language}: {told}");
}
