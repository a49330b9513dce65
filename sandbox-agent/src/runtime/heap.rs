//! A heap for single-threaded programs: free lists of power-of-two sizes over memory of the kernel.
//! Blocks above [`LARGEST_CLASS`] are mapped individually and unmapped when freed.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::null_mut;

use crate::runtime::memory;

const SMALLEST_CLASS: usize = 16;
/// Blocks above this size, in bytes, are mapped individually.
pub const LARGEST_CLASS: usize = 32 * 1024;
const CLASSES: usize = (LARGEST_CLASS / SMALLEST_CLASS).ilog2() as usize + 1;
const CHUNK: usize = 256 * 1024;
const PAGE: usize = 4096;

struct HeapState {
    /// Heads of the free lists. A free block's first word points to the next block.
    free: [*mut u8; CLASSES],
    chunk: *mut u8,
    left: usize,
}

/// A heap for one thread at a time; safe across `fork`.
pub struct Heap {
    state: UnsafeCell<HeapState>,
}

impl core::fmt::Debug for Heap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Heap")
    }
}

// SAFETY: a freestanding program has one thread; nothing else may share a heap.
unsafe impl Sync for Heap {}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST_CLASS);
    (size <= LARGEST_CLASS).then(|| (size.next_power_of_two() / SMALLEST_CLASS).ilog2() as usize)
}

fn pages(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}

impl Heap {
    /// An empty heap.
    pub const fn new() -> Heap {
        let state = HeapState {
            free: [null_mut(); CLASSES],
            chunk: null_mut(),
            left: 0,
        };
        Heap {
            state: UnsafeCell::new(state),
        }
    }

    /// Allocates memory for `layout`; null on failure.
    ///
    /// # Safety
    /// The size must not be 0, and no other thread may use the heap at the same time.
    pub unsafe fn allocate(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            if layout.align() > PAGE {
                return null_mut();
            }
            return memory::map_anonymous(pages(layout.size())).unwrap_or(null_mut());
        };
        // SAFETY: one thread uses the heap, and the reference ends with this function.
        let state = unsafe { &mut *self.state.get() };
        let head = state.free[class];
        if !head.is_null() {
            // SAFETY: a free block is as large as its class, aligned to it, and holds the next
            // one's address.
            state.free[class] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let size = SMALLEST_CLASS << class;
        if state.left < size {
            // The rest of the old chunk is lost: less than one block.
            match memory::map_anonymous(CHUNK) {
                Ok(chunk) => (state.chunk, state.left) = (chunk, CHUNK),
                Err(_) => return null_mut(),
            }
        }
        // Blocks are cut from the chunk's end, below a multiple of their size, so that they are
        // aligned to it.
        let end = (state.chunk as usize + state.left) & !(size - 1);
        if end < state.chunk as usize + size {
            state.left = 0;
            // SAFETY: as for this call; a fresh chunk is aligned to a page at least and holds many
            // blocks.
            return unsafe { self.allocate(layout) };
        }
        state.left = end - size - state.chunk as usize;
        // SAFETY: `left` is inside of the chunk.
        unsafe { state.chunk.add(state.left) }
    }

    /// Frees memory.
    ///
    /// # Safety
    /// `address` must come from [`Heap::allocate`] with the same layout, and not be used
    /// afterwards.
    pub unsafe fn release(&self, address: *mut u8, layout: Layout) {
        match class(layout) {
            None => {
                // SAFETY: the block is a separate mapping. After a failure it stays mapped, which
                // is harmless.
                let _ = unsafe { memory::unmap(address, pages(layout.size())) };
            }
            Some(class) => {
                // SAFETY: one thread uses the heap; the block is at least a word.
                unsafe {
                    let state = &mut *self.state.get();
                    address.cast::<*mut u8>().write(state.free[class]);
                    state.free[class] = address;
                }
            }
        }
    }
}

// SAFETY: blocks are disjoint, large enough and aligned; the default `realloc` copies.
unsafe impl core::alloc::GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller; freestanding programs have one thread.
        unsafe { self.allocate(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.release(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches that the size is valid for the alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class(layout), class(new_layout)) {
            // The block is already large enough.
            (Some(old), Some(new)) if old == new => return address,
            (None, None) if pages(layout.size()) == pages(size) => return address,
            _ => {}
        }
        // SAFETY: passed on to the caller.
        let new = unsafe { self.allocate(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks are at least as large as what is copied, and disjoint.
            unsafe {
                core::ptr::copy_nonoverlapping(address, new, layout.size().min(size));
                self.release(address, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every live block keeps its pattern through any order of allocations and frees.
        #[test]
        fn blocks_never_overlap(steps in proptest::collection::vec((1usize..100_000, 0u32..8, any::<bool>()), 1..200)) {
            let heap = Heap::new();
            let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
            for (index, (size, align, release)) in steps.into_iter().enumerate() {
                if release && !live.is_empty() {
                    let (address, layout, byte) = live.swap_remove(size % live.len());
                    // SAFETY: the block is live and was filled with this byte.
                    unsafe {
                        let bytes = core::slice::from_raw_parts(address, layout.size());
                        prop_assert!(bytes.iter().all(|b| *b == byte));
                        heap.release(address, layout);
                    }
                    continue;
                }
                let layout = Layout::from_size_align(size, 1 << align).unwrap();
                // SAFETY: the size is not 0, and the block is as large as the layout.
                unsafe {
                    let address = heap.allocate(layout);
                    prop_assert!(!address.is_null());
                    prop_assert_eq!(address as usize % layout.align(), 0);
                    address.write_bytes(index as u8, size);
                    live.push((address, layout, index as u8));
                }
            }
            for (address, layout, byte) in live {
                // SAFETY: as above.
                unsafe {
                    let bytes = core::slice::from_raw_parts(address, layout.size());
                    prop_assert!(bytes.iter().all(|b| *b == byte));
                    heap.release(address, layout);
                }
            }
        }
    }
}
