//! The code's user in an image's files of users.

use std::time::Duration;

use bollard::query_parameters::RemoveImageOptions;
use sandbox_core::CapabilityPolicy;

use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, PYTHON, TestResult, output, run, shell};

pub const TESTS: &[EngineTest] = &[
    ("users::user_of_the_code_has_a_name", named),
    ("users::user_that_the_image_knows_keeps_its_name", known),
    ("users::link_and_long_file_are_left_as_they_are", link),
];

/// Prints the names of the user and its group, and what programs ask for.
const NAMES: &str = "id -un; id -gn; whoami
    python3 -c 'import getpass, os, pwd; print(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_dir)'
    getent passwd daemon | cut -d : -f 1; getent group daemon | cut -d : -f 1
    { echo x >> /etc/passwd; } 2>/dev/null && echo changed; id -u";

fn named(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        // Another process would not read the image again, and neither does this one.
        for detached in [false, false, true] {
            let spec = engine.spec().image(PYTHON);
            let spec = spec.detached(detached).lifetime(Duration::from_secs(60));
            let sandbox = client.create(&spec).await?;
            let names = output(&sandbox, NAMES).await?;
            let expected = match names.ends_with("\n0\n") {
                true => "root\nroot\nroot\nroot /root\ndaemon\ndaemon\n0\n",
                false => "sandbox\nsandbox\nsandbox\nsandbox /tmp\ndaemon\ndaemon\n1000\n",
            };
            assert_eq!(names, expected);
            sandbox.kill().await?;
        }
        Ok(())
    })
}

fn known(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = engine.client(CapabilityPolicy::new());
        for (image, user, expected) in [
            (BUSYBOX, "1000:1000", "guest\n"),
            (PYTHON, "33:33", "www-data\n"),
            (PYTHON, "0:0", "root\n"),
        ] {
            let spec = engine.spec().image(image).user(user);
            let sandbox = client.create(&spec).await?;
            assert_eq!(output(&sandbox, "id -un").await?, expected, "{image}");
            sandbox.kill().await?;
        }
        Ok(())
    })
}

fn link(engine: &'static TestEngine) -> TestResult {
    run(async {
        let script = "ln -sf group /etc/passwd; yes '# some text' | head -n 9000 >> /etc/group";
        let image = engine.image_of(PYTHON, script, "ENV MADE=yes").await;
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec().image(&image)).await?;
        let script = "readlink /etc/passwd; wc -l < /etc/group
            cut -d ' ' -f 5 /proc/self/mountinfo | grep -E '^/etc/(passwd|group)'";
        let result = shell(&sandbox, script).await?;
        let text = result.stdout_text();
        let lines = text.lines().collect::<Vec<_>>();
        assert_eq!((lines.len(), lines[0]), (2, "group"), "{text}");
        assert!(
            lines[1].parse::<u32>().is_ok_and(|lines| lines > 9000),
            "{text}"
        );
        sandbox.kill().await?;
        engine
            .api()
            .remove_image(&image, None::<RemoveImageOptions>, None)
            .await
            .expect("removed");
        Ok(())
    })
}
