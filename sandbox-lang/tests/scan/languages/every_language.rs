//! What holds for every language.

use sandbox_lang::scan::{Pattern, Preset, ScanPolicy};

use super::expect::scan;

#[test]
fn patterns_see_the_calls_of_other_languages() {
    let pattern = Pattern::new("own", r"child_process\.exec\(")
        .expect("valid")
        .language("javascript");
    let policy = ScanPolicy::new().pattern(pattern);
    let code = "import {exec as e} from 'child_process'; e('ls')";
    assert!(!scan(&policy, "javascript", code).is_safe());
    assert!(scan(&policy, "typescript", code).is_safe());
}

#[test]
fn every_preset_accepts_harmless_code_and_refuses_a_program() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        for (language, harmless, harmful) in [
            (
                "python",
                "import math\nprint(math.sqrt(2))\n",
                "import subprocess\n",
            ),
            (
                "javascript",
                "console.log(Math.sqrt(2))\n",
                "require('child_process')\n",
            ),
            ("ruby", "puts Math.sqrt(2)\n", "system 'ls'\n"),
            (
                "java",
                "import java.util.List; class A { List<String> x; }",
                "class A { Object x = new ProcessBuilder(); }",
            ),
            (
                "c",
                "#include <stdio.h>\nint main(void) { puts(\"1\"); return 0; }\n",
                "int main(void) { return system(\"ls\"); }\n",
            ),
            (
                "go",
                "package main\nimport \"fmt\"\nfunc main() { fmt.Println(1) }\n",
                "package main\nimport \"os/exec\"\n",
            ),
            (
                "rust",
                "fn main() { println!(\"{}\", 2.0_f64.sqrt()); }\n",
                "use std::process::Command;\n",
            ),
            ("r", "print(sqrt(2))\n", "system('ls')\n"),
            ("sh", "echo 1\n", "kill 1\n"),
        ] {
            let report = scan(&policy, language, harmless);
            assert!(report.is_safe(), "{preset} {language}: {report:?}");
            assert!(
                !scan(&policy, language, harmful).is_safe(),
                "{preset} {language}"
            );
        }
        assert_eq!(preset.as_str().parse::<Preset>().ok(), Some(preset));
    }
    assert!("unknown".parse::<Preset>().is_err());
}
