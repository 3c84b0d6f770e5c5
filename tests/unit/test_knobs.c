/*
 * Settings: the table is sound, each value survives printing and parsing, nonsense changes nothing and is answered
 * with help.
 */
#include "testing.h"

#include "mm/knobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_table(void **state)
{
	uint8_t covered[sizeof(struct knobs)] = { 0 };

	(void)state;
	assert_true(knob_count >= 16);
	for (size_t i = 0; i < knob_count; i++) {
		const struct knob *k = &knob_table[i];

		assert_true(strlen(k->name) && strlen(k->name) <= 64 && strchr(k->name, '.'));
		assert_true(strlen(k->help) && !strchr(k->help, '\n') && strlen(k->origin));
		assert_non_null(k->unit);
		assert_ptr_equal(knob_find(k->name), k);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(k->name, knob_table[j].name);
		/* No two share a byte of struct knobs. */
		assert_true(k->offset + k->size <= sizeof(struct knobs));
		for (size_t j = k->offset; j < k->offset + k->size; j++)
			assert_int_equal(covered[j]++, 0);
		assert_true(k->size == (k->type == KNOB_BOOL ? sizeof(bool) : 4) ||
			    (k->type == KNOB_INT && k->size == 8));
		if (k->type == KNOB_ENUM)
			assert_non_null(k->choices);
		if (k->type == KNOB_INT)
			assert_true(k->min <= k->max && (k->size == 8 || k->max <= UINT32_MAX));
	}
	assert_null(knob_find("vm.swap"));
	assert_null(knob_find(""));
}

static void test_defaults(void **state)
{
	struct knobs k;

	(void)state;
	memset(&k, 0xff, sizeof(k));
	knobs_default(&k);
	assert_int_equal(k.thp_enabled, THP_ALWAYS);
	assert_int_equal(k.thp_defrag, THP_DEFRAG_MADVISE);
	assert_true(k.thp_use_zero_page);
	assert_int_equal(k.huge_clear_order, HUGE_ORDER_TARGET_LAST);
	assert_int_equal(k.huge_copy_order, HUGE_ORDER_TARGET_LAST);
	assert_int_equal(k.huge_cow, HUGE_COW_SPLIT);
	assert_true(k.thp_align_mmap);
	assert_int_equal(k.min_free_kbytes, 0);
	assert_int_equal(k.overcommit_ratio, 50);
	assert_int_equal(k.max_map_count, 65530);
	assert_int_equal(k.fault_around_bytes, 65536);
	assert_int_equal(k.tlb_flush_ceiling, 33);
	assert_int_equal(k.mmap_min_addr, 65536);
	assert_int_equal(k.watermark_scale_factor, 10);
}

/* Set to what was printed: the same struct, for every value of words and for the ends of ranges. */
static void round_trip(const struct knob *kn, const char *value)
{
	struct knobs a, b;
	char text[64], again[64], msg[200];

	knobs_default(&a);
	knobs_default(&b);
	assert_int_equal(knob_set(&a, kn->name, value, msg, sizeof(msg)), 0);
	knob_format(&a, kn, text, sizeof(text));
	assert_int_equal(knob_set(&b, kn->name, text, msg, sizeof(msg)), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	knob_format(&b, kn, again, sizeof(again));
	assert_string_equal(text, again);
	if (kn->type == KNOB_ENUM || !kn->pow2)
		assert_string_equal(text, value);
}

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < knob_count; i++) {
		const struct knob *kn = &knob_table[i];
		char value[32];

		if (kn->type == KNOB_ENUM) {
			for (unsigned j = 0; kn->choices[j]; j++)
				round_trip(kn, kn->choices[j]);
			continue;
		}
		snprintf(value, sizeof(value), "%lu", kn->type == KNOB_BOOL ? 0 : (unsigned long)kn->min);
		round_trip(kn, value);
		snprintf(value, sizeof(value), "%lu", kn->type == KNOB_BOOL ? 1 : (unsigned long)kn->max);
		round_trip(kn, value);
	}
}

static void accept(const char *name, const char *value, const char *printed)
{
	struct knobs k;
	char text[64], msg[200];

	knobs_default(&k);
	if (knob_set(&k, name, value, msg, sizeof(msg)))
		fail_msg("%s=%s was refused: %s", name, value, msg);
	knob_format(&k, knob_find(name), text, sizeof(text));
	assert_string_equal(text, printed);
}

static void test_accepted(void **state)
{
	(void)state;
	accept("transparent_hugepage.enabled", "madvise", "madvise");
	accept("transparent_hugepage.defrag", "defer+madvise", "defer+madvise");
	accept("transparent_hugepage.use_zero_page", "0", "0");
	accept("transparent_hugepage.use_zero_page", "off", "0");
	accept("transparent_hugepage.use_zero_page", "Y", "1");
	accept("quire.fault_around_bytes", "64K", "65536");
	accept("quire.fault_around_bytes", "2m", "2097152");
	accept("quire.fault_around_bytes", "5000", "4096"); /* down to a power of two */
	accept("vm.mmap_min_addr", "0x10000", "65536");
	accept("vm.mmap_min_addr", "1G", "1073741824");
	accept("vm.percpu_pagelist_high_fraction", "0", "0");
	accept("vm.percpu_pagelist_high_fraction", "8", "8");
	accept("vm.min_free_kbytes", "67584", "67584");
}

static void test_refused(void **state)
{
	static const char *const bad[][3] = {
		/* name, value, a word of the answer */
		{ "transparent_hugepage.enabled", "sometimes", "madvise" },
		{ "transparent_hugepage.enabled", "Always", "always" },
		{ "transparent_hugepage.enabled", "", "never" },
		{ "transparent_hugepage.defrag", "defer+", "defer+madvise" },
		{ "transparent_hugepage.use_zero_page", "2", "0 or 1" },
		{ "transparent_hugepage.use_zero_page", "", "0 or 1" },
		{ "transparent_hugepage.use_zero_page", "onwards", "0 or 1" },
		{ "vm.overcommit_memory", "3", "0 to 2" },
		{ "vm.overcommit_memory", "-1", "0 to 2" },
		{ "vm.overcommit_memory", "1x", "0 to 2" },
		{ "vm.overcommit_memory", "0x", "0 to 2" },
		{ "vm.overcommit_memory", " 1", "0 to 2" },
		{ "vm.max_map_count", "4K", "0 to 2147483647" }, /* not a size */
		{ "vm.max_map_count", "2147483648", "2147483647" },
		{ "vm.max_map_count", "18446744073709551616", "2147483647" },
		{ "vm.percpu_pagelist_high_fraction", "7", "0, or 8" },
		{ "vm.watermark_scale_factor", "0", "1 to 3000" },
		{ "quire.fault_around_bytes", "4095", "4096 to 2097152 bytes" },
		{ "quire.fault_around_bytes", "4G", "K, M, G" },
		{ "quire.fault_around_bytes", "64KB", "K, M, G" },
		{ "vm.mmap_min_addr", "17179869184G", "bytes" }, /* 2^64 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct knobs k, before;
		char msg[200] = "";

		knobs_default(&k);
		before = k;
		assert_int_equal(knob_set(&k, bad[i][0], bad[i][1], msg, sizeof(msg)), -EINVAL);
		assert_memory_equal(&k, &before, sizeof(k));
		if (!strstr(msg, bad[i][2]))
			fail_msg("%s=%s: '%s' does not say '%s'", bad[i][0], bad[i][1], msg, bad[i][2]);
		/* A short buffer is filled and terminated, no more. */
		memset(msg, 'x', sizeof(msg));
		assert_int_equal(knob_set(&k, bad[i][0], bad[i][1], msg, 8), -EINVAL);
		assert_true(strlen(msg) <= 7 && msg[8] == 'x');
	}
	struct knobs k;
	char msg[8];

	knobs_default(&k);
	assert_int_equal(knob_set(&k, "vm.nothing", "1", msg, sizeof(msg)), -ENOENT);
}

static void near(const char *typed, const char *meant)
{
	const char *got = knob_nearest(typed);

	if (!meant != !got || (meant && strcmp(meant, got)))
		fail_msg("%s: %s, not %s", typed, got ? got : "nothing", meant ? meant : "nothing");
}

static void test_nearest(void **state)
{
	(void)state;
	for (size_t i = 0; i < knob_count; i++)
		near(knob_table[i].name, knob_table[i].name);
	near("transparent_hugepages.enabled", "transparent_hugepage.enabled");
	near("transparent_hugepage.enable", "transparent_hugepage.enabled");
	near("transparent_hugepage/enabled", "transparent_hugepage.enabled");
	near("thp.defrag", "transparent_hugepage.defrag");
	near("enabled", "transparent_hugepage.enabled");
	near("vm.min_free_kb", "vm.min_free_kbytes");
	near("vm.overcommit-memory", "vm.overcommit_memory");
	near("huge_copy_order", "quire.huge_copy_order");
	near("max_map_cuont", "vm.max_map_count");
	near("", NULL);
	near("x", NULL);
	near("swappiness", "vm.swappiness");
	near("kernel.panic_on_oops", NULL);
	near("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),	 cmocka_unit_test(test_defaults), cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_accepted), cmocka_unit_test(test_refused),  cmocka_unit_test(test_nearest),
	};

	return test_run(tests);
}
