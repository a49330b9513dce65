//! The memory functions that the compiler calls. In a freestanding program they have their C names;
//! elsewhere they exist for tests.

use core::ffi::c_int;

/// Below this many bytes a loop is faster than a string instruction.
#[cfg(target_arch = "x86_64")]
const SMALL: usize = 64;

/// Copies `count` bytes that do not overlap.
///
/// # Safety
/// Both ranges must be valid and disjoint.
#[cfg_attr(freestanding, unsafe(export_name = "memcpy"))]
pub unsafe extern "C" fn copy(target: *mut u8, source: *const u8, count: usize) -> *mut u8 {
    // SAFETY: as for this function.
    unsafe { copy_forward(target, source, count) };
    target
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_forward(target: *mut u8, source: *const u8, count: usize) {
    if count < SMALL {
        // SAFETY: passed on to the caller.
        return unsafe { copy_words(target, source, count) };
    }
    // SAFETY: the ranges are the caller's; the direction flag is clear by the calling convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rdi") target => _,
            inout("rsi") source => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn copy_forward(target: *mut u8, source: *const u8, count: usize) {
    // SAFETY: passed on to the caller.
    unsafe { copy_words(target, source, count) }
}

/// Copies words, then bytes. The empty assembly prevents the compiler from replacing the loop by a
/// call of `memcpy`.
#[inline(always)]
unsafe fn copy_words(target: *mut u8, source: *const u8, count: usize) {
    let mut done = 0;
    while done + 8 <= count {
        // SAFETY: eight bytes are left of both ranges.
        unsafe {
            let word = source.add(done).cast::<u64>().read_unaligned();
            core::arch::asm!("", options(nomem, nostack, preserves_flags));
            target.add(done).cast::<u64>().write_unaligned(word);
        }
        done += 8;
    }
    while done < count {
        // SAFETY: a byte is left of both ranges.
        unsafe {
            let byte = source.add(done).read();
            core::arch::asm!("", options(nomem, nostack, preserves_flags));
            target.add(done).write(byte);
        }
        done += 1;
    }
}

/// Copies `count` bytes that may overlap.
///
/// # Safety
/// Both ranges must be valid.
#[cfg_attr(freestanding, unsafe(export_name = "memmove"))]
pub unsafe extern "C" fn copy_overlapping(
    target: *mut u8,
    source: *const u8,
    count: usize,
) -> *mut u8 {
    if (target as usize).wrapping_sub(source as usize) >= count {
        // SAFETY: the target does not begin inside of the source, so a copy from the start is
        // right.
        unsafe { copy_forward(target, source, count) };
        return target;
    }
    let mut left = count;
    while left >= 8 {
        left -= 8;
        // SAFETY: eight bytes are left of both ranges; they are read before they are written.
        unsafe {
            let word = source.add(left).cast::<u64>().read_unaligned();
            core::arch::asm!("", options(nomem, nostack, preserves_flags));
            target.add(left).cast::<u64>().write_unaligned(word);
        }
    }
    while left > 0 {
        left -= 1;
        // SAFETY: a byte is left of both ranges.
        unsafe {
            let byte = source.add(left).read();
            core::arch::asm!("", options(nomem, nostack, preserves_flags));
            target.add(left).write(byte);
        }
    }
    target
}

/// Fills `count` bytes with the low byte of `value`.
///
/// # Safety
/// The range must be valid.
#[cfg_attr(freestanding, unsafe(export_name = "memset"))]
pub unsafe extern "C" fn fill(target: *mut u8, value: c_int, count: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    if count >= SMALL {
        // SAFETY: the range is the caller's; the direction flag is clear by the calling convention.
        unsafe {
            core::arch::asm!(
                "rep stosb",
                inout("rcx") count => _,
                inout("rdi") target => _,
                in("al") value as u8,
                options(nostack, preserves_flags)
            );
        }
        return target;
    }
    let mut done = 0;
    while done < count {
        // SAFETY: a byte is left of the range.
        unsafe {
            core::arch::asm!("", options(nomem, nostack, preserves_flags));
            target.add(done).write(value as u8);
        }
        done += 1;
    }
    target
}

/// Compares `count` bytes: negative, 0 or positive, as the first difference says.
///
/// # Safety
/// Both ranges must be valid.
#[cfg_attr(freestanding, unsafe(export_name = "memcmp"))]
pub unsafe extern "C" fn compare(left: *const u8, right: *const u8, count: usize) -> c_int {
    let mut done = 0;
    while done < count {
        // SAFETY: a byte is left of both ranges.
        let (a, b) = unsafe { (left.add(done).read(), right.add(done).read()) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
        done += 1;
    }
    0
}

/// Compares `count` bytes: 0 when they are equal.
///
/// # Safety
/// Both ranges must be valid.
#[cfg_attr(freestanding, unsafe(export_name = "bcmp"))]
pub unsafe extern "C" fn differ(left: *const u8, right: *const u8, count: usize) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { compare(left, right, count) }
}

/// The length of a nul-terminated string.
///
/// # Safety
/// The string must be valid up to its nul.
#[cfg_attr(freestanding, unsafe(export_name = "strlen"))]
pub unsafe extern "C" fn length(text: *const u8) -> usize {
    let mut count = 0;
    // SAFETY: the nul has not been reached yet.
    while unsafe { text.add(count).read() } != 0 {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn memory_functions_agree_with_slices(bytes in proptest::collection::vec(any::<u8>(), 0..300), from in 0usize..300, to in 0usize..300, count in 0usize..300) {
            let length = bytes.len();
            let (from, to) = (from.min(length), to.min(length));
            let count = count.min(length - from).min(length - to);
            let mut expected = bytes.clone();
            expected.copy_within(from..from + count, to);
            let mut moved = bytes.clone();
            let start = moved.as_mut_ptr();
            // SAFETY: both ranges are inside of the vector.
            unsafe { copy_overlapping(start.add(to), start.add(from), count) };
            prop_assert_eq!(&moved, &expected);

            let mut copied: Vec<u8> = std::vec![0; count];
            // SAFETY: the vectors are disjoint and long enough.
            unsafe { copy(copied.as_mut_ptr(), bytes.as_ptr().add(from), count) };
            prop_assert_eq!(&copied[..], &bytes[from..from + count]);

            // SAFETY: both ranges are inside of the vectors.
            let order = unsafe { compare(bytes.as_ptr().add(from), bytes.as_ptr().add(to), count) };
            prop_assert_eq!(order.cmp(&0), bytes[from..from + count].cmp(&bytes[to..to + count]));

            // SAFETY: the range is the whole vector.
            unsafe { fill(copied.as_mut_ptr(), 0x1ff, count) };
            prop_assert!(copied.iter().all(|byte| *byte == 0xff));
        }
    }

    #[test]
    fn strlen_stops_at_the_nul() {
        // SAFETY: the string has a nul.
        assert_eq!(unsafe { length(c"four".as_ptr().cast()) }, 4);
    }
}
