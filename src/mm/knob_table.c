/*
 * The settings, one entry each, in the order in which they are listed. Nothing else in the project repeats a name, default or range.
 * Names are Linux's: the sysctl name, or the tail of the sysfs path; quire.* where Linux chose for you or hides it in debugfs.
 */
#include "mm/knobs.h"

static const char *const enabled_words[] = { "never", "madvise", "always", NULL };
static const char *const defrag_words[] = { "never", "madvise", "defer", "defer+madvise", "always", NULL };
static const char *const order_words[] = { "linear", "target_last", "neighbourhood_last", NULL };
static const char *const cow_words[] = { "copy", "split", NULL };

#define FIELD(f) .offset = offsetof(struct knobs, f), .size = sizeof(((struct knobs *)0)->f)

const struct knob knob_table[] = {
	{ .name = "transparent_hugepage.enabled", .type = KNOB_ENUM, FIELD(thp_enabled), .def = THP_ALWAYS, .choices = enabled_words,
	  .unit = "", .help = "who gets 2 MiB pages for anonymous memory: nobody, areas that asked (MADV_HUGEPAGE), all",
	  .origin = "sysfs; default as Debian's kernels" },
	{ .name = "transparent_hugepage.defrag", .type = KNOB_ENUM, FIELD(thp_defrag), .def = THP_DEFRAG_MADVISE,
	  .choices = defrag_words, .unit = "",
	  .help = "who waits for memory to be made when a 2 MiB page is not at hand: nobody, areas that asked, all",
	  .origin = "sysfs; default since 4.6" },
	{ .name = "transparent_hugepage.use_zero_page", .type = KNOB_BOOL, FIELD(thp_use_zero_page), .def = 1, .unit = "",
	  .help = "a read of untouched memory maps one shared 2 MiB page of zeroes", .origin = "sysfs" },
	{ .name = "quire.huge_clear_order", .type = KNOB_ENUM, FIELD(huge_clear_order), .def = HUGE_ORDER_TARGET_LAST,
	  .choices = order_words, .unit = "", .help = "in which order the parts of a huge page are cleared",
	  .origin = "quire; linear before 4.14, target_last since, neighbourhood_last proposed in 2025" },
	{ .name = "quire.huge_copy_order", .type = KNOB_ENUM, FIELD(huge_copy_order), .def = HUGE_ORDER_TARGET_LAST,
	  .choices = order_words, .unit = "", .help = "in which order the parts of a huge page are copied",
	  .origin = "quire; linear before 4.19, target_last since" },
	{ .name = "quire.huge_cow", .type = KNOB_ENUM, FIELD(huge_cow), .def = HUGE_COW_SPLIT, .choices = cow_words, .unit = "",
	  .help = "a write to a shared 2 MiB page copies all of it, or splits the mapping and copies 4 KiB",
	  .origin = "quire; copy before 5.8, split since" },
	{ .name = "quire.thp_align_mmap", .type = KNOB_BOOL, FIELD(thp_align_mmap), .def = 1, .unit = "",
	  .help = "anonymous maps of 2 MiB and more start at a 2 MiB boundary", .origin = "quire; since 6.7" },
	{ .name = "vm.min_free_kbytes", .type = KNOB_INT, FIELD(min_free_kbytes), .def = 0, .min = 0, .max = 1ULL << 26, .unit = "kB",
	  .help = "memory kept free, from which the watermarks follow; 0: computed from the memory's size", .origin = "sysctl" },
	{ .name = "vm.watermark_scale_factor", .type = KNOB_INT, FIELD(watermark_scale_factor), .def = 10, .min = 1, .max = 3000,
	  .unit = "", .help = "distance between the watermarks, in 1/10000 of a zone's memory", .origin = "sysctl" },
	{ .name = "vm.percpu_pagelist_high_fraction", .type = KNOB_INT, FIELD(percpu_pagelist_high_fraction), .def = 0, .min = 8,
	  .max = UINT32_MAX, .zero_ok = true, .unit = "",
	  .help = "per-CPU lists of a zone hold up to 1/this of it; 0: sized by the low watermark", .origin = "sysctl; since 5.14" },
	{ .name = "vm.overcommit_memory", .type = KNOB_INT, FIELD(overcommit_memory), .def = 0, .min = 0, .max = 2, .unit = "",
	  .help = "0: refuse only obvious overcommitment, 1: never refuse, 2: refuse beyond the limit", .origin = "sysctl" },
	{ .name = "vm.overcommit_ratio", .type = KNOB_INT, FIELD(overcommit_ratio), .def = 50, .min = 0, .max = INT32_MAX, .unit = "%",
	  .help = "with overcommit_memory 2: the limit, in per cent of memory", .origin = "sysctl" },
	{ .name = "vm.max_map_count", .type = KNOB_INT, FIELD(max_map_count), .def = 65530, .min = 0, .max = INT32_MAX, .unit = "",
	  .help = "how many areas an address space may have", .origin = "sysctl" },
	{ .name = "vm.mmap_min_addr", .type = KNOB_INT, FIELD(mmap_min_addr), .def = 65536, .min = 0, .max = 1ULL << 46,
	  .unit = "bytes", .help = "lowest address that a program may map", .origin = "sysctl" },
	{ .name = "quire.fault_around_bytes", .type = KNOB_INT, FIELD(fault_around_bytes), .def = 65536, .min = 4096, .max = 2097152,
	  .pow2 = true, .unit = "bytes", .help = "a read fault on a file also maps cached pages in a window of this size",
	  .origin = "debugfs fault_around_bytes" },
	{ .name = "quire.tlb_single_page_flush_ceiling", .type = KNOB_INT, FIELD(tlb_flush_ceiling), .def = 33, .min = 0,
	  .max = UINT32_MAX, .unit = "", .help = "entries flushed one by one before the whole address space is flushed instead",
	  .origin = "debugfs x86/tlb_single_page_flush_ceiling" },
};

const size_t knob_count = sizeof(knob_table) / sizeof(knob_table[0]);
