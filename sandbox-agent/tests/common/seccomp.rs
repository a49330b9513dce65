//! Seccomp programs that refuse system calls.

/// A seccomp program that refuses these system calls with an error.
pub fn refuse(calls: &[libc::c_long], errno: i32) -> Vec<u8> {
    let mut program: Vec<(u16, u8, u8, u32)> = vec![(0x20, 0, 0, 0)];
    for call in calls {
        program.push((0x15, 0, 1, u32::try_from(*call).unwrap()));
        program.push((0x06, 0, 0, 0x0005_0000 | errno.cast_unsigned()));
    }
    program.push((0x06, 0, 0, 0x7fff_0000));
    program
        .into_iter()
        .flat_map(|(code, jt, jf, k)| {
            let mut record = code.to_ne_bytes().to_vec();
            record.extend([jt, jf]);
            record.extend(k.to_ne_bytes());
            record
        })
        .collect()
}

/// Installs a program for the calling process, which must be root.
pub fn install(program: &[u8]) -> bool {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len() / 8).unwrap(),
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel reads the program, whose records are 8 bytes long.
    unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        ) == 0
    }
}
