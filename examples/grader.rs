//! Grades programs that strangers submit: each runs alone, against each case, with limits.
//!
//! ```console
//! $ cargo run --example grader
//! ```

use std::time::Duration;

use sandbox::{
    ByteSize, Capability, CapabilityPolicy, ExecRequest, Outcome, Result, SandboxClient,
    SandboxSpec, Stdin,
};

/// A case: the input, and the expected output.
const CASES: [(&str, &str); 2] = [("3 4\n", "7\n"), ("-1 1\n", "0\n")];

const SUBMISSIONS: [(&str, &str); 5] = [
    ("ada", "a, b = map(int, input().split())\nprint(a + b)"),
    (
        "bob",
        "a, b = map(int, input().split())\nprint(abs(a) + abs(b))",
    ),
    ("cy", "while True: pass"),
    ("di", "import nothing"),
    ("ed", "print(open('/etc/shadow').read())"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let policy = CapabilityPolicy::new()
        .timeout(Duration::from_secs(2))
        .memory(ByteSize::mib(128))
        // An ordinary user without control groups can only sample the memory.
        .allow_partial(Capability::Memory)
        .allow_unenforced(Capability::Memory);
    let client = sandbox::local(policy)?;
    for (name, code) in SUBMISSIONS {
        println!("{name}: {}", grade(&client, name, code).await?);
    }
    Ok(())
}

/// The verdict on one submission. Nothing of it reaches the next one.
async fn grade(client: &SandboxClient, name: &str, code: &str) -> Result<String> {
    let sandbox = client.create(&SandboxSpec::new(name)).await?;
    sandbox.write("/tmp/submission.py", code).await?;
    let run = ExecRequest::new("python3").arg("/tmp/submission.py");
    for (number, (input, expected)) in CASES.into_iter().enumerate() {
        let result = sandbox
            .exec_with(&run, Stdin::from_bytes(input), |_, _| {})
            .await?;
        let verdict = match &result.outcome {
            Outcome::Exited { code: 0 } if result.stdout_text() == expected => continue,
            Outcome::Exited { code: 0 } => "wrong answer".to_owned(),
            Outcome::TimedOut => "time limit exceeded".to_owned(),
            Outcome::OutOfMemory => "memory limit exceeded".to_owned(),
            other => {
                let stderr = result.stderr_text();
                format!("{other}: {}", stderr.lines().last().unwrap_or_default())
            }
        };
        return Ok(format!("{verdict} in case {}", number + 1));
    }
    Ok("accepted".to_owned())
}
